// SPDX-License-Identifier: Apache-2.0
#include "run/run_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "core/gpu_catalogue.h"
#include "cuda/devices.h"
#include "model_files/families/registry.h"

namespace gradmill {
namespace {

// Cached: the GPUs of this machine do not change during a run, and asking the driver takes time.
const std::vector<DeviceSpec>& gpus() {
  static const std::vector<DeviceSpec> found = cuda::present_devices();
  return found;
}

DeviceSpec resolve_device(const std::string& name) {
  if (name == "cpu" || (name == "auto" && gpus().empty())) return host_cpu();
  if (name == "auto") return gpus().front();
  if (name == "cuda") {
    if (!gpus().empty()) return gpus().front();
    throw usage_error("machine.device=cuda, but no GPU can be used: " + cuda::why_no_gpu(),
                      "use machine.device=auto or cpu, or name a GPU to plan for");
  }
  for (const DeviceSpec& gpu : gpus()) {
    if (gpu.name == name) return gpu;
  }
  return device_by_name(name);
}

DType resolve_dtype(const std::string& name, const DeviceSpec& device) {
  if (name == "auto") return device.compute_capability >= 80 ? DType::bf16 : DType::fp32;
  if (name == "tf32") return DType::fp32;
  for (DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw usage_error(fmt::format("unknown dtype '{}'", name), "choose one of: auto, fp32, tf32, bf16, fp16");
}

AttentionBackend attention_backend(const std::string& name) {
  if (name == "cudnn") return AttentionBackend::cudnn;
  if (name == "flash") return AttentionBackend::flash;
  return name == "math" ? AttentionBackend::math : AttentionBackend::automatic;
}

std::string tuning_cache(const std::string& setting) {
  if (!setting.empty()) return setting;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache != 0) return std::string(cache) + "/gradmill/tuning";
  return home == nullptr ? std::string() : std::string(home) + "/.cache/gradmill/tuning";
}

int thread_count(int64_t setting) {
  if (setting > 0) return static_cast<int>(setting);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

TransformerSpec model_spec(const RunConfig& config, int64_t vocab) {
  const ModelConfig& model = config.model;
  TransformerSpec spec = family_named(model.style)
                             .preset({.vocab = vocab,
                                      .layers = model.layers,
                                      .heads = model.heads,
                                      .kv_heads = model.kv_heads,
                                      .width = model.width,
                                      .mlp_width = model.mlp_width,
                                      .context = model.context,
                                      .bias = model.bias});
  spec.tied = model.tied;
  spec.dropout = model.dropout > 0;
  return spec;
}

BatchShape batch_shape(const RunConfig& config, int64_t num_ranks) {
  BatchShape shape;
  const int64_t batch = (config.training.batch_size + num_ranks - 1) / num_ranks,
                micro = config.training.micro_batch_size;
  shape.train_seqs = micro > 0 ? std::min(micro, batch) : batch;
  shape.eval_seqs = eval_batch_size(config, shape.train_seqs);
  shape.context = config.model.context;
  const bool packed = !config.data.path.empty() && !is_labelled(config.data.kind());
  shape.seqs_per_row = packed ? pack_options(config).row_documents : 1;
  return shape;
}

// A forward pass alone keeps no activations for a backward pass, so twice the batch fits.
int64_t eval_batch_size(const RunConfig& config, int64_t train_seqs) {
  return config.eval.batch_size > 0 ? config.eval.batch_size : 2 * train_seqs;
}

SessionOptions session_options(const RunConfig& config) { return session_options(config, batch_shape(config)); }

SessionOptions session_options(const RunConfig& config, const BatchShape& shape) {
  SessionOptions options;
  options.shape() = shape;
  options.device = resolve_device(config.machine.device);
  options.num_threads = thread_count(config.machine.threads);
  options.dtype = resolve_dtype(config.machine.dtype, options.device);
  options.policy = SavePolicy::by_name(config.machine.save_policy);
  options.adamw = {.beta1 = static_cast<float>(config.optimizer.beta1),
                   .beta2 = static_cast<float>(config.optimizer.beta2),
                   .eps = static_cast<float>(config.optimizer.eps),
                   .weight_decay = static_cast<float>(config.optimizer.weight_decay),
                   .clip = static_cast<float>(config.optimizer.clip)};
  options.ema_decay = static_cast<float>(config.optimizer.ema_decay);
  options.dropout = static_cast<float>(config.model.dropout);
  options.seed = static_cast<uint64_t>(config.training.seed);
  options.kernels = {.attention = attention_backend(config.attention.backend),
                     .tf32 = config.machine.dtype == "tf32" && options.device.compute_capability >= 80,
                     .deterministic = config.machine.deterministic,
                     .fused_adamw = config.optimizer.fused && config.compile.mode != "off"};
  // The initial value and growth of PyTorch's scaler.
  if (options.dtype == DType::fp16) options.loss_scaling = {.initial = 65536, .growth_steps = 2000};
  options.capture = config.compile.mode == "reduce-overhead" || config.compile.mode == "max-autotune";
  options.autotune = config.compile.mode == "max-autotune";
  options.tuning_cache = tuning_cache(config.compile.cache);
  return options;
}

CorpusOptions corpus_options(const RunConfig& config) {
  return {.dataset = config.data.dataset, .max_chars = config.data.max_chars, .download = config.data.download};
}

int num_loader_threads(const DataConfig& config) {
  return config.num_workers == DataConfig::kAutoWorkers ? auto_loader_threads() : static_cast<int>(config.num_workers);
}

LoaderOptions loader_options(const RunConfig& config) {
  return {.batch_size = config.training.batch_size,
          .micro_batch_size = config.training.micro_batch_size,
          .context = config.model.context,
          .seed = static_cast<uint64_t>(config.training.seed),
          .num_threads = num_loader_threads(config.data),
          .prefetch = std::max(2, num_loader_threads(config.data))};
}

PackOptions pack_options(const RunConfig& config) {
  const bool documents = config.data.packing == "documents";
  return checked_pack_options(
      {.mode = documents ? PackMode::documents : PackMode::concatenated, .context = config.model.context});
}

PackedLoaderOptions packed_loader_options(const RunConfig& config) {
  const LoaderOptions options = loader_options(config);
  return {.batch_size = options.batch_size,
          .micro_batch_size = options.micro_batch_size,
          .seed = options.seed,
          .num_threads = options.num_threads,
          .prefetch = options.prefetch,
          .damaged = config.data.bad_records == "skip" ? BadRecordPolicy::skip : BadRecordPolicy::error};
}

SamplerOptions sampler_options(const RunConfig& config) {
  SamplerOptions options;
  options.temperature = config.sample.temperature;
  options.top_k = config.sample.top_k;
  options.top_p = config.sample.top_p;
  options.seed = static_cast<uint64_t>(config.training.seed);
  return options;
}

RunLength run_length(const RunConfig& config, int64_t steps_per_epoch) {
  RunLength length;
  length.total_steps = config.training.steps > 0 ? config.training.steps : config.training.epochs * steps_per_epoch;
  length.steps_per_epoch = steps_per_epoch > 0 ? steps_per_epoch : std::max<int64_t>(1, length.total_steps);
  return length;
}

Schedule make_schedule(const RunConfig& config, int64_t total_steps) {
  const auto part = static_cast<int64_t>(std::ceil(config.schedule.warmup_fraction * double(total_steps)));
  const int64_t warmup_steps = config.schedule.warmup_steps > 0 ? config.schedule.warmup_steps : part;
  return {.kind = schedule_kind(config.schedule.name),
          .peak = static_cast<float>(config.optimizer.lr),
          .floor = static_cast<float>(config.optimizer.min_lr),
          .warmup_steps = warmup_steps,
          .total_steps = total_steps,
          .decay_fraction = config.schedule.decay_fraction};
}

}  // namespace gradmill
