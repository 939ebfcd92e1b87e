// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/labelled/read_labelled.h"
#include "data/labelled/encoded_set.h"
#include "data/labelled/summary.h"

namespace gradmill {
namespace {

std::string label_of(const LabelledSet& set, const LabelledExample& example) {
  if (!set.is_labelled(example)) return "no label";
  return set.regression ? fmt::format("{:g}", example.target) : set.labels.name(example.label);
}

// At most `most` bytes in one line, cut between characters.
std::string shortened(std::string text, size_t most) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most) + "...";
}

}  // namespace

std::string inspect_labelled(const InspectLabelledOptions& options) {
  const LabelledSet set = read_labelled(options.files, {.require_labels = false, .bad_records = options.bad_records});
  std::optional<EncodedSet> encoded;
  if (options.tokenizer != nullptr) {
    encoded.emplace(set, *options.tokenizer, options.tokenizer->sequence_template(),
                    EncodeSetOptions{.truncation = {.max_length = options.max_length}});
  }
  const std::string second = set.pairs ? fmt::format(" and '{}'", set.columns.second) : "";
  std::string text = fmt::format("text in '{}'{}\n", set.columns.first, second);
  if (!set.skipped.empty()) text += set.skipped + "\n";
  text += describe(summarize(set, encoded ? &*encoded : nullptr));
  for (int32_t i = 0; i < std::min(options.num_samples, set.size()); ++i) {
    const LabelledExample& example = set.examples[static_cast<size_t>(i)];
    const std::string shown = encoded ? options.tokenizer->decode(encoded->sequence(i).ids, {.replace_invalid = true})
                                      : example.first + (set.pairs ? " | " + example.second : "");
    text += fmt::format("\n{}\n  {}: {}\n", set.where(example), label_of(set, example),
                        shortened(shown, static_cast<size_t>(options.width) * 4));
  }
  return text;
}

}  // namespace gradmill
