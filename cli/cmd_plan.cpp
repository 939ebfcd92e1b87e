// SPDX-License-Identifier: Apache-2.0
// gradmill plan
#include <memory>

#include "commands.h"
#include "config_args.h"
#include "run/fit_plan.h"
#include "run/load_run_data.h"
#include "run/run_model.h"
#include "run/run_options.h"
#include "session/session.h"

namespace gradmill::cli {
namespace {

// Takes the sizes from the data if there is any, otherwise from the vocabulary that was asked for.
CheckedData planned_data(const RunConfig& config, int64_t vocab) {
  constexpr int64_t kCharacters = 65;  // as in tiny Shakespeare
  if (vocab == 0 && !config.data.path.empty()) return check_run_data(config);
  return {.vocab = vocab > 0 ? vocab : kCharacters, .task = task_without_data(config), .shape = batch_shape(config)};
}

// The sizes are those of a GPU, even on a machine without one.
std::string fits_text(RunConfig config, int64_t vocab, const std::vector<double>& sizes) {
  constexpr const char* kAssumed = "rtx4090";
  if (config.machine.device == "auto" && session_options(config).device.kind == DeviceKind::cpu) {
    config.machine.device = kAssumed;
  }
  const std::vector<FitChoice> choices =
      fit_choices(config, [&](const RunConfig& changed) { return planned_data(changed, vocab); });
  return fmt::format("the fastest settings, on paper, that fit {} with this much memory\n\n{}",
                     session_options(config).device.title, describe_fits(choices, sizes));
}

}  // namespace

Run add_plan(CLI::App& app) {
  const auto request = std::make_shared<ConfigRequest>();
  const auto device = std::make_shared<std::string>();
  const auto vocab = std::make_shared<int64_t>(0);
  const auto sizes = std::make_shared<std::vector<double>>();
  add_config_args(app, *request);
  app.add_option("--device", *device,
                 "short for machine.device=: cpu, or a GPU such as h100, a100-80, rtx3090, rtx4090");
  app.add_option("--vocab", *vocab, "vocabulary size to plan for; default: the tokenizer's, or 65 for characters")
      ->check(CLI::PositiveNumber);
  app.add_option("--fits", *sizes,
                 "only print settings with which the run fits GPUs of these sizes in GiB: 12,16,24,32")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber);
  return [=] {
    if (!device->empty()) request->overrides.push_back("machine.device=" + *device);
    const RunConfig config = load_config(*request).config;
    if (!sizes->empty()) {
      fmt::print("{}", fits_text(config, *vocab, *sizes));
      return 0;
    }
    const CheckedData data = planned_data(config, *vocab);
    const RunModel model = open_run_model(config, data.task, data.vocab);
    fmt::print("{}", describe(Session::plan(*model.network, session_options(config, data.shape))));
    return 0;
  };
}

}  // namespace gradmill::cli
