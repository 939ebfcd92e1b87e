// SPDX-License-Identifier: Apache-2.0
#include "data/chat/instruction_example.h"

#include "core/error.h"

namespace gradmill {

void InstructionCounts::merge(const InstructionCounts& later) {
  num_examples += later.num_examples;
  num_truncated += later.num_truncated;
  num_masked += later.num_masked;
  num_split_prompts += later.num_split_prompts;
  if (first_masked.empty()) first_masked = later.first_masked;
  if (first_split.empty()) first_split = later.first_split;
}

std::string InstructionCounts::summary() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (num_truncated > 0)
    add(fmt::format("{} of {} examples were cut at the maximal length", num_truncated, num_examples));
  if (num_masked > 0) {
    add(fmt::format("{} were skipped, because nothing in them is learned (the first: {})", num_masked, first_masked));
  }
  if (num_split_prompts > 0) {
    add(
        fmt::format("in {} the prompt's tokens are not the first of the whole, so that the model learns from a prompt "
                    "that it does not see later (the first: {})",
                    num_split_prompts, first_split));
  }
  return text;
}

}  // namespace gradmill
