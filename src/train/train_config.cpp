// SPDX-License-Identifier: Apache-2.0
#include "train/train_config.h"

#include <thread>

namespace gradmill {
namespace {

void require(bool good, std::string_view name, const std::string& value, std::string_view range) {
  if (!good) throw usage_error(fmt::format("{} is {}", name, value), fmt::format("it must be {}", range));
}

void at_least(int64_t minimum, std::string_view name, int64_t value) {
  require(value >= minimum, name, std::to_string(value), fmt::format("{} or more", minimum));
}

void in_range(double low, double high, std::string_view name, double value) {
  require(value >= low && value <= high, name, fmt::format("{}", value), fmt::format("between {} and {}", low, high));
}

DType compute_dtype(const std::string& name) {
  for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw usage_error(fmt::format("unknown dtype '{}'", name), "choose one of: fp32, bf16, fp16");
}

}  // namespace

void TrainConfig::check() const {
  at_least(1, "--context", context);
  at_least(1, "--batch-size", batch_size);
  at_least(0, "--micro-batch-size", micro_batch_size);
  at_least(1, "--steps", steps);
  at_least(0, "--warmup-steps", warmup_steps);
  at_least(0, "--eval-interval", eval_interval);
  at_least(0, "--eval-tokens", eval_tokens);
  at_least(1, "--log-interval", log_interval);
  at_least(0, "--sample-tokens", sample_tokens);
  at_least(0, "--top-k", top_k);
  at_least(0, "--threads", num_threads);
  at_least(0, "--loader-threads", loader_threads);
  at_least(0, "--max-chars", corpus.max_chars);
  in_range(0, 0.95, "--dropout", dropout);
  in_range(0.001, 0.9, "--validation", validation_fraction);
  in_range(0, 10, "--lr", lr);
  in_range(0, lr, "--min-lr", min_lr);
  in_range(0, 100, "--temperature", temperature);
  in_range(0, 1e6, "--clip", adamw.clip);
  in_range(0, 10, "--weight-decay", adamw.weight_decay);
  in_range(0, 0.9999, "--beta1", adamw.beta1);
  in_range(0, 0.999999, "--beta2", adamw.beta2);
}

TransformerSpec model_spec(const TrainConfig& config, int64_t vocab) {
  TransformerSpec spec;
  if (config.style == "gpt2") {
    spec = gpt2_spec(vocab, config.layers, config.heads, config.width, config.context);
    if (config.mlp_width != 0) spec.mlp_width = config.mlp_width;
  } else if (config.style == "qwen3") {
    const int64_t mlp_width = config.mlp_width != 0 ? config.mlp_width : (config.width * 8 / 3 + 31) / 32 * 32;
    spec = qwen3_spec(vocab, config.layers, config.heads, config.kv_heads, config.width, mlp_width, config.context);
  } else {
    throw usage_error(fmt::format("unknown model style '{}'", config.style), "choose one of: gpt2, qwen3");
  }
  spec.kv_heads = config.kv_heads;
  spec.tied = config.tied;
  spec.dropout = config.dropout > 0;
  return spec;
}

SessionOptions session_options(const TrainConfig& config) {
  SessionOptions options;
  options.device = device_by_name(config.device);
  options.num_threads = config.num_threads > 0 ? config.num_threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.dtype = compute_dtype(config.dtype);
  options.policy = SavePolicy::by_name(config.save_policy);
  const int64_t micro = config.micro_batch_size > 0 ? config.micro_batch_size : config.batch_size;
  options.train_seqs = std::min(micro, config.batch_size);
  options.eval_seqs = 2 * options.train_seqs;  // a forward keeps nothing, so twice the batch fits
  options.context = config.context;
  options.adamw = config.adamw;
  options.dropout = static_cast<float>(config.dropout);
  options.seed = config.seed;
  return options;
}

CosineSchedule schedule(const TrainConfig& config) {
  return {.peak = static_cast<float>(config.lr), .floor = static_cast<float>(config.min_lr),
          .warmup_steps = config.warmup_steps, .total_steps = config.steps};
}

}  // namespace gradmill
