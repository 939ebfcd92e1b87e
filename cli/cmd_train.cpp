// SPDX-License-Identifier: Apache-2.0
// gradmill train
#include <memory>

#include "commands.h"
#include "console.h"
#include "train_options.h"

namespace gradmill::cli {

Run add_train(CLI::App& app) {
  const auto config = std::make_shared<TrainConfig>();
  add_train_options(app, *config);
  return [config] {
    Console console;
    Trainer(*config, console).run();
    return 0;
  };
}

}  // namespace gradmill::cli
