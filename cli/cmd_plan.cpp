// SPDX-License-Identifier: Apache-2.0
// gradmill plan
#include <memory>

#include "commands.h"
#include "train/memory_plan.h"
#include "train_options.h"

namespace gradmill::cli {

Run add_plan(CLI::App& app) {
  const auto config = std::make_shared<TrainConfig>();
  const auto vocab = std::make_shared<int64_t>(65);
  add_train_options(app, *config);
  app.add_option("--device", config->device, "cpu, or a GPU: h100, h200, a100-80, rtx3090, rtx4090, rtx5090, ...")
      ->capture_default_str()->group("Machine");
  app.add_option("--vocab", *vocab, "vocabulary size to plan for")->capture_default_str()->group("Model");
  return [config, vocab] {
    config->check();
    const Transformer model(model_spec(*config, *vocab));
    fmt::print("{}", describe(Session::plan(model, session_options(*config))));
    return 0;
  };
}

}  // namespace gradmill::cli
