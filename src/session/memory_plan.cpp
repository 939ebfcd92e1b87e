// SPDX-License-Identifier: Apache-2.0
#include "session/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace gradmill {
namespace {

constexpr size_t kOwnersShown = 12;

std::string mib(size_t bytes) { return fmt::format("{:10.2f} MiB", double(bytes) / double(1 << 20)); }

// "layers.3.mlp.hidden" and its siblings in other layers become one line, "layers.*.mlp.hidden".
std::string family(const std::string& owner) {
  std::string text;
  bool in_number = false;
  for (size_t i = 0; i < owner.size(); ++i) {
    const bool digit = owner[i] >= '0' && owner[i] <= '9' && (in_number || (i > 0 && owner[i - 1] == '.'));
    if (digit && !in_number) text += '*';
    if (!digit) text += owner[i];
    in_number = digit;
  }
  return text;
}

// Sorts the largest first.
std::vector<OwnerFamily> families_of(std::initializer_list<const ArenaPlan*> arenas) {
  std::map<std::string, OwnerFamily> families;
  for (const ArenaPlan* arena : arenas) {
    for (const OwnerBytes& owner : arena->owners) {
      OwnerFamily& sum = families[family(owner.owner)];
      sum.bytes += owner.bytes;
      ++sum.count;
    }
  }
  std::vector<OwnerFamily> sorted;
  for (auto& [name, sum] : families) sorted.push_back({name, sum.bytes, sum.count});
  std::ranges::stable_sort(sorted, std::greater(), &OwnerFamily::bytes);
  return sorted;
}

void append_arena(std::string& text, std::string_view title, const ArenaPlan& plan) {
  text += fmt::format("{:<28}{}  ({} bytes)\n", title, mib(plan.bytes), plan.bytes);
  const std::vector<OwnerFamily> lines = families_of({&plan});
  for (size_t i = 0; i < std::min(kOwnersShown, lines.size()); ++i) {
    const OwnerFamily& sum = lines[i];
    text +=
        fmt::format("    {}  {}{}\n", mib(sum.bytes), sum.name, sum.count > 1 ? fmt::format("  x{}", sum.count) : "");
  }
  if (lines.size() > kOwnersShown) text += fmt::format("    and {} more\n", lines.size() - kOwnersShown);
}

void append_ledger(std::string& text, const Ledger& ledger) {
  text += fmt::format("{:<28}{:>7}{:>12}{:>12}{:>14}\n", "work of one training step", "calls", "GFLOP", "GB moved",
                      "roofline ms");
  const auto line = [&](std::string_view name, const Ledger::Line& sum) {
    text += fmt::format("    {:<24}{:>7}{:>12.3f}{:>12.3f}{:>14.3f}\n", name, sum.calls, sum.flops / 1e9,
                        sum.bytes / 1e9, sum.seconds * 1e3);
  };
  for (const auto& [name, sum] : ledger.lines()) line(name, sum);
  line("total", ledger.total());
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kNumPhases> kNames{"train", "eval", "generate", "diagnose", "load"};
  return kNames[static_cast<size_t>(phase)];
}

size_t MemoryPlan::activation_bytes() const {
  size_t largest = 0;
  for (const PhasePlan& phase : phases) largest = std::max(largest, phase.saved.bytes + phase.scratch.bytes);
  return largest;
}

std::vector<OwnerFamily> MemoryPlan::owners() const {
  const auto size = [](const PhasePlan& phase) { return phase.saved.bytes + phase.scratch.bytes; };
  const PhasePlan& largest = *std::ranges::max_element(phases, {}, size);
  if (frozen_is_there) return families_of({&persistent, &largest.saved, &largest.scratch});
  return families_of({&persistent, &frozen, &largest.saved, &largest.scratch});
}

std::string describe(const MemoryPlan& plan) {
  std::string text = fmt::format("plan for {} ({:.1f} GiB)\n\n", plan.device.title,
                                 double(plan.device.memory_bytes) / double(1 << 30));
  append_arena(text, "persistent", plan.persistent);
  if (plan.frozen_is_there) {
    text +=
        fmt::format("{:<28}{}  (another session's: not counted)\n", "shared frozen weights", mib(plan.frozen.bytes));
  } else if (plan.frozen.bytes > 0) {
    append_arena(text, "frozen, beside the slab", plan.frozen);
  }
  for (int p = 0; p < kNumPhases; ++p) {
    const PhasePlan& phase = plan.phases[static_cast<size_t>(p)];
    const std::string_view name = name_of(static_cast<Phase>(p));
    if (phase.saved.bytes > 0) append_arena(text, fmt::format("{}: saved", name), phase.saved);
    if (phase.scratch.bytes > 0) append_arena(text, fmt::format("{}: scratch", name), phase.scratch);
  }
  text += fmt::format("{:<28}{}  ({} bytes: persistent + the largest phase)\n", "slab", mib(plan.slab_bytes()),
                      plan.slab_bytes());
  if (plan.device.kind == DeviceKind::cuda) {
    text += fmt::format("{:<28}{}  (upper bound)\n", "library workspaces", mib(plan.device.library_bytes));
    text += fmt::format("{:<28}{}  (catalogued)\n", "driver", mib(plan.device.driver_bytes));
  }
  const bool fits = plan.total_bytes() <= plan.device.memory_bytes;
  text += fmt::format("{:<28}{}  {}\n\n", "total", mib(plan.total_bytes()), fits ? "fits" : "DOES NOT FIT");
  append_ledger(text, plan.phase(Phase::train).ledger);
  return text;
}

}  // namespace gradmill
