// SPDX-License-Identifier: Apache-2.0
#include "train_options.h"

namespace gradmill::cli {

void add_train_options(CLI::App& app, TrainConfig& config) {
  const auto add = [&app](const char* flag, auto& field, const char* help, const char* group) {
    app.add_option(flag, field, help)->capture_default_str()->group(group);
  };
  add("--dataset", config.corpus.dataset, "self, shakespeare, or a path to UTF-8 text", "Data");
  add("--max-chars", config.corpus.max_chars, "use only the first characters (0: all)", "Data");
  app.add_flag("--download", config.corpus.download, "fetch a named data set that is not here")->group("Data");
  add("--validation", config.validation_fraction, "fraction held out for validation, from the end", "Data");
  add("--loader-threads", config.loader_threads, "threads that prepare batches (0: none)", "Data");

  add("--style", config.style, "gpt2 or qwen3", "Model");
  add("--layers", config.layers, "number of blocks", "Model");
  add("--heads", config.heads, "attention heads", "Model");
  add("--kv-heads", config.kv_heads, "key and value heads (0: as many as heads)", "Model");
  add("--width", config.width, "width of the residual stream", "Model");
  add("--mlp-width", config.mlp_width, "width of the MLP (0: the style's usual)", "Model");
  add("--context", config.context, "tokens a prediction can look back on", "Model");
  add("--dropout", config.dropout, "dropout probability", "Model");
  app.add_flag("!--untied", config.tied, "give the head its own weights")->group("Model");

  add("--batch-size", config.batch_size, "sequences per step", "Training");
  add("--micro-batch-size", config.micro_batch_size, "sequences at once (0: the batch)", "Training");
  add("--steps", config.steps, "training steps", "Training");
  add("--lr", config.lr, "peak learning rate", "Training");
  add("--min-lr", config.min_lr, "learning rate at the end", "Training");
  add("--warmup-steps", config.warmup_steps, "steps to reach the peak", "Training");
  add("--weight-decay", config.adamw.weight_decay, "decay of matrices", "Training");
  add("--beta1", config.adamw.beta1, "AdamW's first beta", "Training");
  add("--beta2", config.adamw.beta2, "AdamW's second beta", "Training");
  add("--clip", config.adamw.clip, "largest global gradient norm (0: off)", "Training");
  add("--seed", config.seed, "seed of weights, batches, dropout and sample", "Training");

  add("--eval-interval", config.eval_interval, "steps between evaluations (0: only at the end)", "Watching");
  add("--eval-tokens", config.eval_tokens, "tokens of an evaluation during the run (0: all)", "Watching");
  add("--log-interval", config.log_interval, "steps between lines", "Watching");
  add("--sample-tokens", config.sample_tokens, "characters to write at the end", "Watching");
  add("--temperature", config.temperature, "of the sample (0: always the likeliest)", "Watching");
  add("--top-k", config.top_k, "sample among so many (0: all)", "Watching");

  add("--threads", config.num_threads, "CPU threads (0: every core)", "Machine");
  add("--dtype", config.dtype, "compute type: fp32, bf16 or fp16", "Machine");
  add("--save-policy", config.save_policy, "activations kept for the backward: none (keep all), cheap, block", "Machine");
}

}  // namespace gradmill::cli
