// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace gradmill::cuda {
namespace {

constexpr int kOldestCapability = 75;

struct Target {
  int capability = 0;    // 0: a word such as "native", which names no capability
  bool one_gpu = false;  // 90a: uses instructions of this generation only
  bool compiles = true;  // PTX, which a driver compiles for newer GPUs; false: machine code, which runs within its
                         // generation only
};

Target parse(std::string_view text) {
  Target target;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, target.capability);
  if (error != std::errc()) return {};
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  target.one_gpu = suffix.starts_with('a');
  target.compiles = !suffix.ends_with("-real");
  return target;
}

std::vector<Target> parse_all(std::string_view targets) {
  std::vector<Target> all;
  while (!targets.empty()) {
    const size_t comma = std::min(targets.find(','), targets.size());
    all.push_back(parse(targets.substr(0, comma)));
    targets.remove_prefix(std::min(comma + 1, targets.size()));
  }
  return all;
}

bool runs_on(const Target& target, int capability) {
  if (target.capability == 0 || target.capability == capability) return true;
  if (target.one_gpu || target.capability > capability) return false;
  return target.compiles || target.capability / 10 == capability / 10;
}

std::string dotted(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

}  // namespace

std::string describe_targets(std::string_view targets) {
  std::vector<std::string> words;
  bool newer = false;
  for (const Target& target : parse_all(targets)) {
    newer |= target.capability > 0 && target.compiles && !target.one_gpu;
    const std::string word = target.capability == 0 ? "the GPU it was built for" : dotted(target.capability);
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return fmt::format("{}{}", fmt::join(words, ", "), newer ? " and newer" : "");
}

std::string why_no_code(std::string_view targets, int compute_capability) {
  const std::vector<Target> all = parse_all(targets);
  if (std::ranges::any_of(all, [&](const Target& target) { return runs_on(target, compute_capability); })) return {};
  const std::string has = fmt::format("compute capability {}, and this binary has code for {}",
                                      dotted(compute_capability), describe_targets(targets));
  if (compute_capability < kOldestCapability) {
    return has + fmt::format("; CUDA 13 makes none for GPUs before {}", dotted(kOldestCapability));
  }
  return has + "; 'make CUDA=on' on this machine builds for its GPU, PRESET=cuda-all for every one";
}

}  // namespace gradmill::cuda
