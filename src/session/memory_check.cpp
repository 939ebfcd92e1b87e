// SPDX-License-Identifier: Apache-2.0
#include "session/memory_check.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "metrics/format.h"

namespace gradmill {
namespace {

std::string largest_parts(const MemoryPlan& plan) {
  constexpr size_t kShown = 3;
  std::vector<std::string> parts;
  for (const OwnerFamily& family : plan.owners()) {
    if (parts.size() < kShown) parts.push_back(fmt::format("{} {}", format_bytes(double(family.bytes)), family.name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The next narrower format of a frozen base; empty if there is none.
std::string narrower_base(const AdapterPlan& adapters) {
  if (!adapters.freezes_base || adapters.base == WeightFormat::nf4) return {};
  return adapters.base == WeightFormat::int8 ? "model.load_in=nf4" : "model.load_in=int8";
}

std::vector<std::string> smaller_settings(const SessionOptions& options, const AdapterPlan& adapters) {
  std::vector<std::string> settings;
  if (options.inference) {
    if (options.eval_seqs > 1) settings.push_back(fmt::format("eval.batch_size={}", options.eval_seqs / 2));
  } else {
    if (options.train_seqs > 1) {
      settings.push_back(fmt::format("training.micro_batch_size={}", options.train_seqs / 2));
    }
    const std::string_view policy = options.policy.name();
    if (policy == "none") settings.emplace_back("machine.save_policy=cheap");
    if (policy == "cheap") settings.emplace_back("machine.save_policy=block");
    if (const std::string narrower = narrower_base(adapters); !narrower.empty()) settings.push_back(narrower);
  }
  if (options.context > 1) settings.push_back(fmt::format("model.context={}", options.context / 2));
  return settings;
}

// The advice if the model alone needs too much memory.
std::string smaller_model(const SessionOptions& options, const AdapterPlan& adapters) {
  if (options.inference) return "use a smaller model";
  if (!adapters.freezes_base) {
    return "use a smaller model, or train adapters of a pretrained model (adapter.kind=lora)";
  }
  const std::string narrower = narrower_base(adapters);
  return narrower.empty() ? "use a smaller model" : "use " + narrower + ", or a smaller model";
}

std::string advice(const MemoryPlan& plan, const SessionOptions& options, const AdapterPlan& adapters,
                   size_t available) {
  const size_t lasting = plan.persistent.bytes + plan.own_frozen_bytes();
  if (lasting > available) {
    return fmt::format("{} are needed for any batch: {}", format_bytes(double(lasting)),
                       smaller_model(options, adapters));
  }
  return fmt::format("try {}{}; 'gradmill plan' shows all of the memory",
                     fmt::join(smaller_settings(options, adapters), ", "),
                     options.inference ? "" : ", or --preset auto, which finds what fits");
}

}  // namespace

void require_memory(const MemoryPlan& plan, const SessionOptions& options, const AdapterPlan& adapters,
                    size_t available) {
  const size_t needed = plan.allocated_bytes();
  if (needed <= available) return;
  throw Error(ExitCode::out_of_memory,
              fmt::format("the run needs {} of memory, but only {} are free on {}; most of it is for {}",
                          format_bytes(double(needed)), format_bytes(double(available)), options.device.title,
                          largest_parts(plan)),
              advice(plan, options, adapters, available));
}

}  // namespace gradmill
