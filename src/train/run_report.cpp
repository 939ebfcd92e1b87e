// SPDX-License-Identifier: Apache-2.0
#include "train/run_report.h"

#include "config/render.h"

namespace gradmill {
namespace {

Feature number_feature(std::string name, std::string_view key, double value, std::string_view meaning) {
  if (value > 0) return {std::move(name), true, fmt::format("{} {:g}", meaning, value)};
  return {std::move(name), false, fmt::format("{}=0", key)};
}

}  // namespace

std::string run_header(Trainer& trainer, const RunConfig& config, const std::string& folder) {
  const TransformerSpec& spec = trainer.model().spec();
  const RunData& data = trainer.data();
  const size_t train = data.tokens.train.size(), validation = data.tokens.validation.size();
  std::string text = fmt::format("data      {} ({}): {} characters, {} distinct; {} to train on, {} to validate\n",
                                 data.name, data.origin, train + validation, spec.vocab, train, validation);
  text +=
      fmt::format("model     {}: {} layers, {} heads, width {}, context {}; {} parameters\n", config.model.style,
                  spec.layers, spec.heads, spec.width, spec.max_positions, trainer.model().params().num_parameters());
  text += fmt::format("memory    {:.1f} MiB, planned to the byte\n",
                      double(trainer.session().memory_plan().slab_bytes()) / (1 << 20));
  text += fmt::format("training  {} steps of {} x {} tokens, {:.2f} epochs\n", trainer.length().total_steps,
                      config.training.batch_size, config.model.context,
                      trainer.length().epoch_of(trainer.length().total_steps));
  return text + fmt::format("run       {}\n", folder);
}

std::vector<Feature> run_features(const RunConfig& config) {
  const SessionOptions options = session_options(config);
  const bool recomputes = config.machine.save_policy != "none";
  return {
      {"device", true, fmt::format("cpu, {} threads; training on a CPU is slow", options.num_threads)},
      {"precision", true, config.machine.dtype},
      {"tf32", false, "needs a GPU"},
      {"cuda graphs", false, "needs a GPU"},
      {"flash attention", true, "tiled, memory linear in the context"},
      {"fused adamw", true,
       fmt::format("lr {:g}, weight decay {:g}", config.optimizer.lr, config.optimizer.weight_decay)},
      number_feature("gradient clipping", "optimizer.clip", config.optimizer.clip, "global norm"),
      number_feature("averaged weights", "optimizer.ema_decay", config.optimizer.ema_decay, "decay"),
      number_feature("early stopping", "eval.patience", double(config.eval.patience), "patience"),
      number_feature("data workers", "data.num_workers", double(config.data.num_workers), "threads"),
      {"recomputation", recomputes, "machine.save_policy=" + config.machine.save_policy},
      {"deterministic", true, "same bits for any number of threads"},
  };
}

Hparams run_hparams(const RunConfig& config) {
  Hparams values;
  for (const ConfigDifference& setting : diff(RunConfig{}, config)) values[setting.key] = setting.b;
  return values;
}

}  // namespace gradmill
