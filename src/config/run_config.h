// SPDX-License-Identifier: Apache-2.0
// Every setting of a run, with its default. To add one, add a member and a line in its section's `visit`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/data_config.h"
#include "config/field.h"

namespace gradmill {

struct ModelConfig {
  std::string path, init = "file", load_in = "bf16";
  std::string style = "gpt2";
  int64_t layers = 4, heads = 4, kv_heads = 0, width = 128, mlp_width = 0, context = 64;
  double dropout = 0;
  bool bias = true, tied = true;

  void visit(FieldList& field) {
    field("path", &path,
          "a model to start from: a Hugging Face folder or a .gguf file. Its config replaces the settings below, "
          "except context and dropout",
          anything().or_unset("a new model with the settings below"));
    field("init", &init,
          "what to take from model.path: its weights (file), or only its shape, with random weights (random)",
          one_of({"file", "random"}));
    field("load_in", &load_in,
          "how the frozen weights of linear layers are stored when adapters are trained: bf16 (the compute type), "
          "int8, or nf4 (4 bits)",
          one_of({"bf16", "int8", "nf4"}));
    field("style", &style,
          "architecture: gpt2 (learned positions, LayerNorm, GELU), llama (RoPE, RMSNorm, SwiGLU), qwen2 (llama with "
          "biases on q, k and v), qwen3 (llama with norms on q and k), or bert (an encoder, for labelled data and "
          "data.task=mask)",
          one_of({"gpt2", "llama", "qwen2", "qwen3", "bert"}));
    field("layers", &layers, "number of transformer blocks", between(1, 4096));
    field("heads", &heads, "attention heads", between(1, 4096));
    field("kv_heads", &kv_heads, "key and value heads", between(0, 4096).or_unset("as many as heads"));
    field("width", &width, "width of the residual stream", between(1, 1 << 20));
    field("mlp_width", &mlp_width, "width of the MLP's hidden layer",
          between(0, 1 << 22).or_unset("the style's usual"));
    field("context", &context, "context length in tokens; for labelled data, the longest sequence",
          between(1, 1 << 24));
    field("dropout", &dropout, "dropout probability", between(0, 0.95));
    field("bias", &bias, "gpt2 only: biases in projections and LayerNorms; the other styles fix this themselves",
          anything());
    field("tied", &tied, "share the embedding's weights with the head", anything());
  }
};

struct TrainingConfig {
  int64_t steps = 2000, epochs = 0;
  int64_t batch_size = 12, micro_batch_size = 0, micro_tokens = 0;
  int64_t seed = 1337;
  int64_t nan_patience = 3;
  double spike_factor = 0;
  double rollback_lr_factor = 0.5;
  int64_t max_rollbacks = 3;

  void visit(FieldList& field) {
    field("steps", &steps, "number of optimizer steps", at_least(0).or_unset("count epochs instead"));
    field("epochs", &epochs, "passes over the training data; needs training.steps=0",
          at_least(0).or_unset("count steps instead"));
    field("batch_size", &batch_size, "sequences per step", between(1, 1 << 24));
    field("micro_batch_size", &micro_batch_size, "sequences per forward and backward pass",
          between(0, 1 << 24).or_unset("the whole batch"));
    field("micro_tokens", &micro_tokens,
          "labelled data: tokens per forward and backward pass, in at most micro_batch_size sequences",
          between(0, 1 << 30).or_unset("chosen so that nearly every batch fits"));
    field("seed", &seed, "seed for weights, batches, dropout and samples", at_least(0));
    field("nan_patience", &nan_patience,
          "consecutive bad steps (not finite, or a loss spike) before the run rolls back", at_least(1));
    field("spike_factor", &spike_factor, "a step is bad if its loss exceeds this many times the running mean",
          between(1, 1e6).or_unset("off"));
    field("rollback_lr_factor", &rollback_lr_factor, "factor applied to the learning rate at each roll-back",
          between(0.001, 1));
    field("max_rollbacks", &max_rollbacks, "roll-backs before the run gives up", at_least(0));
  }
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 1e-3, min_lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0.1;
  double clip = 1.0;
  double ema_decay = 0;
  bool fused = true;

  void visit(FieldList& field) {
    field("name", &name, "optimizer", one_of({"adamw"}));
    field("lr", &lr, "peak learning rate", between(0, 10));
    field("min_lr", &min_lr, "learning rate at the end of the schedule", between(0, 10));
    field("beta1", &beta1, "decay of the first moment", between(0, 0.9999));
    field("beta2", &beta2, "decay of the second moment", between(0, 0.999999));
    field("eps", &eps, "added to the square root of the second moment", between(1e-20, 1));
    field("weight_decay", &weight_decay, "weight decay; applied to matrices only", between(0, 10));
    field("clip", &clip, "largest global gradient norm; larger gradients are scaled down to it",
          between(0, 1e6).or_unset("off"));
    field("ema_decay", &ema_decay, "decay per step of the averaged weights", between(0, 0.999999).or_unset("off"));
    field("fused", &fused, "on a GPU: do the whole update in one kernel", anything());
  }
};

struct ScheduleConfig {
  std::string name = "cosine";
  int64_t warmup_steps = 100;
  double warmup_fraction = 0;
  double decay_fraction = 0.2;

  void visit(FieldList& field) {
    field("name", &name, "shape of the learning rate after the warm-up",
          one_of({"constant", "linear", "cosine", "wsd"}));
    field("warmup_steps", &warmup_steps, "steps until the learning rate reaches its peak", at_least(0));
    field("warmup_fraction", &warmup_fraction, "warm-up as a fraction of the run; used when warmup_steps is 0",
          between(0, 1).or_unset("none"));
    field("decay_fraction", &decay_fraction,
          "wsd only: the last fraction of the run, in which the learning rate falls to min_lr", between(0, 1));
  }
};

struct EvalConfig {
  int64_t every_steps = 250, every_epochs = 0;
  double every_minutes = 0;
  int64_t tokens = 16384, batch_size = 0;
  std::string metric = "auto", threshold = "none";
  int64_t patience = 0;
  double min_delta = 0;

  void visit(FieldList& field) {
    field("every_steps", &every_steps, "steps between evaluations", at_least(0).or_unset("off"));
    field("every_epochs", &every_epochs, "epochs between evaluations", at_least(0).or_unset("off"));
    field("every_minutes", &every_minutes, "minutes between evaluations", at_least(0).or_unset("off"));
    field("tokens", &tokens, "tokens per evaluation during the run; the last evaluation reads the whole split",
          at_least(0).or_unset("the whole split"));
    field("batch_size", &batch_size, "sequences per evaluation pass",
          between(0, 1 << 24).or_unset("twice those of a training pass"));
    field("metric", &metric,
          "the metric that picks the best checkpoint and decides early stopping; auto: the loss for text, accuracy for "
          "classes, Spearman's correlation for numbers",
          one_of({"auto", "loss", "accuracy", "f1", "macro_f1", "mcc", "auroc", "pearson", "spearman", "mse"}));
    field("threshold", &threshold,
          "two classes: at the end of the run, choose on the validation data the probability from which the second "
          "class is predicted, so that this metric is best",
          one_of({"none", "f1", "accuracy", "mcc"}));
    field("patience", &patience, "evaluations without improvement before the run stops", at_least(0).or_unset("off"));
    field("min_delta", &min_delta, "smallest change of the metric that counts as an improvement", between(0, 100));
  }
};

struct CheckpointConfig {
  std::string dir;
  int64_t every_steps = 0, every_epochs = 0;
  double every_minutes = 0;
  int64_t keep_last = 2;
  bool keep_best = true;
  std::string on_error = "stop";

  void visit(FieldList& field) {
    field("dir", &dir, "run folder", anything().or_unset("runs/<time>-<dataset>-<model>"));
    field("every_steps", &every_steps, "steps between checkpoints", at_least(0).or_unset("off"));
    field("every_epochs", &every_epochs, "epochs between checkpoints", at_least(0).or_unset("off"));
    field("every_minutes", &every_minutes, "minutes between checkpoints", at_least(0).or_unset("off"));
    field("keep_last", &keep_last, "number of newest checkpoints to keep", at_least(1));
    field("keep_best", &keep_best, "also keep the checkpoint with the best eval.metric", anything());
    field("on_error", &on_error, "what to do when a checkpoint cannot be saved", one_of({"stop", "continue"}));
  }
};

struct LoggingConfig {
  int64_t every_steps = 50;
  bool jsonl = true, csv = true, tensorboard = true;
  std::string progress = "auto";

  void visit(FieldList& field) {
    field("every_steps", &every_steps, "steps between reports", at_least(1));
    field("jsonl", &jsonl, "write metrics.jsonl", anything());
    field("csv", &csv, "write metrics.csv", anything());
    field("tensorboard", &tensorboard, "write TensorBoard events", anything());
    field("progress", &progress, "what the terminal shows; auto: a bar on a terminal, lines in a pipe",
          one_of({"auto", "bar", "lines", "off"}));
  }
};

struct SampleConfig {
  int64_t tokens = 500;
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1.0;

  void visit(FieldList& field) {
    field("tokens", &tokens, "tokens to generate at the end of the run", at_least(0).or_unset("no sample"));
    field("temperature", &temperature, "sampling temperature", between(0, 100).or_unset("always the likeliest token"));
    field("top_k", &top_k, "sample from this many of the likeliest tokens", at_least(0).or_unset("all"));
    field("top_p", &top_p, "sample from the likeliest tokens that together have this probability", between(0, 1));
  }
};

struct AttentionConfig {
  std::string backend = "auto";

  void visit(FieldList& field) {
    field(
        "backend", &backend,
        "attention kernels on a GPU: cudnn (the library), flash (our own), or math (a baseline that stores all scores)",
        one_of({"auto", "cudnn", "flash", "math"}));
  }
};

struct CompileConfig {
  std::string mode = "reduce-overhead";
  std::string cache;

  void visit(FieldList& field) {
    field("mode", &mode,
          "on a GPU: off (plain kernels), default (fused kernels), reduce-overhead (also CUDA graphs), max-autotune "
          "(also times GEMM algorithms in the first step)",
          one_of({"off", "default", "reduce-overhead", "max-autotune"}));
    field("cache", &cache, "file that stores the algorithms max-autotune has chosen",
          anything().or_unset("~/.cache/gradmill/tuning"));
  }
};

struct MachineConfig {
  std::string device = "auto";
  int64_t threads = 0;
  std::string dtype = "auto";
  std::string save_policy = "none";
  bool deterministic = false;

  // "auto", "cpu", "cuda" and the GPUs of the catalogue.
  static std::vector<std::string> device_names();

  void visit(FieldList& field) {
    field("device", &device, "the device to run on or to plan for; auto: the GPU if there is one, otherwise the CPU",
          one_of(device_names()));
    field("threads", &threads, "CPU threads", between(0, 4096).or_unset("every core"));
    field("dtype", &dtype,
          "compute type; weights and moments stay fp32. auto: bf16 on a GPU that has it, otherwise fp32; tf32: fp32 "
          "with faster, less exact matrix products",
          one_of({"auto", "fp32", "tf32", "bf16", "fp16"}));
    field("save_policy", &save_policy,
          "what the backward pass recomputes to save memory: nothing (none), cheap parts (cheap), or whole blocks "
          "(block)",
          one_of({"none", "cheap", "block"}));
    field("deterministic", &deterministic, "give the same bits in every run on a GPU too, even where this is slower",
          anything());
  }
};

// Low-rank adapters beside a frozen base. (adapters/AdapterConfig is PEFT's adapter_config.json.)
struct AdapterTrainingConfig {
  std::string kind = "none";
  int64_t rank = 16;
  double alpha = 32, dropout = 0;
  bool rslora = false;
  std::string targets = "all-linear", modules_to_save;
  std::string path;

  bool on() const { return kind != "none" || !path.empty(); }

  void visit(FieldList& field) {
    field(
        "kind", &kind,
        "what to train of the model in model.path: all of it (none), or only adapters and the task's head (lora, dora)",
        one_of({"none", "lora", "dora"}));
    field("rank", &rank, "rank of the adapters", between(1, 4096));
    field("alpha", &alpha, "adapters are scaled by alpha / rank", between(0, 1e6));
    field("dropout", &dropout, "dropout probability of the adapters' inputs", between(0, 0.95));
    field("rslora", &rslora, "scale by alpha / sqrt(rank) instead", anything());
    field("targets", &targets,
          "layers that get an adapter: all-linear, comma-separated names as in the model's files (q_proj,v_proj), or "
          "one regular expression for whole names",
          anything());
    field("modules_to_save", &modules_to_save, "comma-separated layers to train in full",
          anything().or_unset("the task's head"));
    field("path", &path,
          "a folder of adapters, made by PEFT or by an export, to train further. It determines the kind, rank, layers "
          "and the rest",
          anything().or_unset("new adapters"));
  }
};

struct RunConfig {
  DataConfig data;
  AugmentConfig augment;
  ModelConfig model;
  AdapterTrainingConfig adapter;
  TrainingConfig training;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  LoggingConfig logging;
  SampleConfig sample;
  AttentionConfig attention;
  CompileConfig compile;
  MachineConfig machine;

  void visit(FieldList& list) {
    list.section("data", "the data a run learns from", data);
    list.section("augment", "random changes to labelled training data", augment);
    list.section("model", "the model's architecture, and what it starts from", model);
    list.section("adapter", "adapters: small trained parts beside a frozen model", adapter);
    list.section("training", "length of the run, batches, and what happens after bad steps", training);
    list.section("optimizer", "how weights are updated", optimizer);
    list.section("schedule", "the learning rate over the run", schedule);
    list.section("eval", "when and how the model is evaluated, besides at the end of the run", eval);
    list.section("checkpoint", "when and where the run is saved", checkpoint);
    list.section("logging", "what the run reports, and where", logging);
    list.section("sample", "the text generated at the end of the run", sample);
    list.section("attention", "how attention is computed", attention);
    list.section("compile", "fused kernels, CUDA graphs and GEMM tuning", compile);
    list.section("machine", "device, precision and threads", machine);
  }
};

// The settings in order, pointing into `config`.
inline FieldList fields_of(RunConfig& config) {
  FieldList list;
  config.visit(list);
  return list;
}

// Settings that are allowed by themselves but not together.
struct BrokenRule {
  std::vector<std::string> keys;
  std::string rule;
};
std::vector<BrokenRule> broken_rules(const RunConfig& config);

}  // namespace gradmill
