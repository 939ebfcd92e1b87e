// SPDX-License-Identifier: Apache-2.0
#include "run/fit_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "run/run_model.h"
#include "run/run_options.h"
#include "session/session.h"

namespace gradmill {
namespace {

constexpr double kGiB = double(size_t{1} << 30);

// `set` and the values after it in `all`, which save more.
std::vector<std::string> values_from(const std::string& set, std::vector<std::string> all) {
  all.erase(all.begin(), std::find(all.begin(), all.end(), set));
  return all;
}

// The configured micro-batch, then half of it, and so on.
std::vector<int64_t> micro_sizes(const RunConfig& config) {
  const int64_t batch = config.training.batch_size, micro = config.training.micro_batch_size;
  std::vector<int64_t> sizes = {micro > 0 ? std::min(micro, batch) : batch};
  while (sizes.back() > 1) sizes.push_back((sizes.back() + 1) / 2);
  return sizes;
}

std::string changes(const RunConfig& from, const RunConfig& to) {
  std::string text;
  const auto add = [&](const std::string& setting) { text += (text.empty() ? "" : " ") + setting; };
  if (to.training.micro_batch_size != from.training.micro_batch_size) {
    add(fmt::format("training.micro_batch_size={}", to.training.micro_batch_size));
  }
  if (to.machine.save_policy != from.machine.save_policy) add("machine.save_policy=" + to.machine.save_policy);
  if (to.model.load_in != from.model.load_in) add("model.load_in=" + to.model.load_in);
  return text;
}

FitChoice choice(const RunConfig& from, const RunConfig& to, const Transformer& model, const BatchShape& shape) {
  const MemoryPlan plan = Session::plan(model, session_options(to, shape));
  const int64_t parts = (to.training.batch_size + shape.train_seqs - 1) / shape.train_seqs;
  return {.settings = changes(from, to),
          .bytes = plan.total_bytes(),
          .step_seconds = double(parts) * plan.phase(Phase::train).ledger.total().seconds};
}

}  // namespace

std::vector<FitChoice> fit_choices(const RunConfig& config,
                                   const std::function<CheckedData(const RunConfig&)>& check_data,
                                   const std::function<bool(const std::string&)>& may_change) {
  const auto ways = [&](const std::string& key, const std::string& set, const std::vector<std::string>& all) {
    return may_change(key) ? values_from(set, all) : std::vector<std::string>{set};
  };
  const std::vector<std::string> formats = config.adapter.on()
                                               ? ways("model.load_in", config.model.load_in, {"bf16", "int8", "nf4"})
                                               : std::vector<std::string>{config.model.load_in};
  const std::vector<std::string> policies =
      ways("machine.save_policy", config.machine.save_policy, {"none", "cheap", "block"});
  std::vector<int64_t> micro = micro_sizes(config);
  if (!may_change("training.micro_batch_size")) micro.resize(1);
  std::vector<FitChoice> choices;
  for (const int64_t size : micro) {
    RunConfig changed = config;
    if (size != micro.front()) changed.training.micro_batch_size = size;
    const CheckedData data = check_data(changed);
    for (size_t narrowing = 0; narrowing < formats.size(); ++narrowing) {
      changed.model.load_in = formats[narrowing];
      const RunModel model = open_run_model(changed, data.task, data.vocab);
      for (const std::string& policy : policies) {
        changed.machine.save_policy = policy;
        choices.push_back(choice(config, changed, *model.network, data.shape));
        choices.back().narrowing = static_cast<int>(narrowing);
      }
    }
  }
  return choices;
}

const FitChoice* fastest_fit(std::span<const FitChoice> choices, size_t memory_bytes) {
  const auto order = [](const FitChoice& choice) { return std::pair(choice.narrowing, choice.step_seconds); };
  const FitChoice* best = nullptr;
  for (const FitChoice& each : choices) {
    if (each.bytes <= memory_bytes && (best == nullptr || order(each) < order(*best))) best = &each;
  }
  return best;
}

std::string describe_fits(std::span<const FitChoice> choices, std::span<const double> sizes) {
  std::string text = fmt::format("{:<12}{:>10}{:>15}  {}\n", "memory", "uses", "roofline ms", "with");
  for (const double size : sizes) {
    const std::string memory = fmt::format("{:g} GiB", size);
    if (const FitChoice* fit = fastest_fit(choices, static_cast<size_t>(size * kGiB))) {
      text += fmt::format("{:<12}{:>6.2f} GiB{:>15.1f}  {}\n", memory, double(fit->bytes) / kGiB,
                          fit->step_seconds * 1e3, fit->settings.empty() ? "nothing changed" : fit->settings);
    } else {
      const auto least = std::min_element(choices.begin(), choices.end(),
                                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      text += fmt::format("{:<12}{:>6.2f} GiB{:>15}  DOES NOT FIT, even with {}\n", memory, double(least->bytes) / kGiB,
                          "-", least->settings.empty() ? "nothing changed" : least->settings);
    }
  }
  return text;
}

}  // namespace gradmill
