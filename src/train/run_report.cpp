// SPDX-License-Identifier: Apache-2.0
#include "train/run_report.h"

#include "config/render.h"
#include "cuda/devices.h"

namespace gradmill {
namespace {

Feature number_feature(std::string name, std::string_view key, double value, std::string_view meaning) {
  if (value > 0) return {std::move(name), true, fmt::format("{} {:g}", meaning, value)};
  return {std::move(name), false, fmt::format("{}=0", key)};
}

Feature device_feature(const RunConfig& config, const SessionOptions& options) {
  if (options.device.kind == DeviceKind::cpu) {
    const std::string why = config.machine.device == "auto" ? "; no GPU: " + cuda::why_no_gpu() : "";
    return {"device", true, fmt::format("cpu, {} threads; training on a CPU is slow{}", options.num_threads, why)};
  }
  return {"device", true,
          fmt::format("{}, compute capability {}.{}, {:.1f} GiB", options.device.title,
                      options.device.compute_capability / 10, options.device.compute_capability % 10,
                      double(options.device.memory_bytes) / double(1 << 30))};
}

Feature precision_feature(const RunConfig& config, const SessionOptions& options) {
  constexpr int kFirstWithBf16 = 80;
  std::string detail(options.kernels.tf32 ? "tf32" : name_of(options.dtype));
  const bool wants_bf16 = config.machine.dtype == "auto" || config.machine.dtype == "bf16";
  if (options.device.kind == DeviceKind::cuda && options.device.compute_capability < kFirstWithBf16 && wants_bf16) {
    detail += "; this GPU's matrix units support fp16 (machine.dtype=fp16), but not bf16";
  }
  return {"precision", true, detail};
}

Feature tf32_feature(const RunConfig& config, const SessionOptions& options) {
  if (options.device.kind == DeviceKind::cpu) return {"tf32", false, "needs a GPU"};
  if (options.dtype != DType::fp32) return {"tf32", false, "inactive: no FP32 GEMMs"};
  if (options.kernels.tf32) return {"tf32", true, "machine.dtype=tf32"};
  const bool asked = config.machine.dtype == "tf32";
  return {"tf32", false, asked ? "needs compute capability 8.0: fp32 is used" : "machine.dtype=fp32"};
}

Feature attention_feature(const SessionOptions& options) {
  const bool whole = options.device.kind == DeviceKind::cuda && options.kernels.attention == AttentionBackend::math;
  return {
      "flash attention", !whole,
      whole ? "attention.backend=math stores a matrix of context x context" : "tiled, memory linear in the context"};
}

// Empty unless only a part of the model is trained.
std::string trained_part(const ParamTable& params) {
  int64_t trained = 0;
  for (const Segment& segment : params.segments()) trained += segment.size;
  if (trained == params.num_parameters()) return "";
  return fmt::format(", {} of them trained", trained);
}

}  // namespace

std::string run_header(Trainer& trainer, const RunConfig& config, const std::string& folder) {
  const TransformerSpec& spec = trainer.model().spec();
  std::string text = fmt::format("data      {}\n", trainer.data().describe());
  const RunModel& model = trainer.run_model();
  const ParamTable& params = trainer.model().params();
  text += fmt::format("model     {}: {} layers, {} heads, width {}, context {}; {} parameters{}\n",
                      config.model.path.empty() ? config.model.style : model.hf.architecture, spec.layers, spec.heads,
                      spec.width, spec.max_positions, params.num_parameters(), trained_part(params));
  text += fmt::format("memory    {:.1f} MiB, planned to the byte\n",
                      double(trainer.session().memory_plan().allocated_bytes()) / (1 << 20));
  const bool labelled = is_labelled(config.data.kind());
  text += fmt::format("training  {} steps of {}{}, {:.2f} epochs\n", trainer.length().total_steps,
                      config.training.batch_size,
                      labelled ? " examples" : fmt::format(" x {} tokens", config.model.context),
                      trainer.length().epoch_of(trainer.length().total_steps));
  return text + fmt::format("run       {}\n", folder);
}

std::vector<Feature> run_features(const RunConfig& config) {
  const SessionOptions options = session_options(config);
  const bool recomputes = config.machine.save_policy != "none";
  const bool gpu = options.device.kind == DeviceKind::cuda;
  return {
      device_feature(config, options),
      precision_feature(config, options),
      tf32_feature(config, options),
      {"cuda graphs", gpu && options.capture, gpu ? "compile.mode=" + config.compile.mode : "needs a GPU"},
      {"autotuned GEMMs", gpu && options.autotune, gpu ? "compile.mode=" + config.compile.mode : "needs a GPU"},
      attention_feature(options),
      {"fused adamw", options.kernels.fused_adamw,
       fmt::format("lr {:g}, weight decay {:g}", config.optimizer.lr, config.optimizer.weight_decay)},
      number_feature("gradient clipping", "optimizer.clip", config.optimizer.clip, "global norm"),
      number_feature("averaged weights", "optimizer.ema_decay", config.optimizer.ema_decay, "decay"),
      number_feature("early stopping", "eval.patience", double(config.eval.patience), "patience"),
      number_feature("data workers", "data.num_workers", double(num_loader_threads(config.data)), "threads"),
      {"recomputation", recomputes, "machine.save_policy=" + config.machine.save_policy},
      {"deterministic", !gpu || options.kernels.deterministic,
       gpu ? fmt::format("machine.deterministic={}", options.kernels.deterministic)
           : std::string("same bits for any number of threads")},
  };
}

Hparams run_hparams(const RunConfig& config) {
  Hparams values;
  for (const ConfigDifference& setting : diff(RunConfig{}, config)) values[setting.key] = setting.b;
  return values;
}

}  // namespace gradmill
