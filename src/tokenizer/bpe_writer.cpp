// SPDX-License-Identifier: Apache-2.0
// Writes a learned BPE as tokenizer.json.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tokenizer/bpe_trainer.h"

namespace gradmill {
namespace {

using nlohmann::ordered_json;

ordered_json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

ordered_json split_component(SplitKind split) {
  switch (split) {
    case SplitKind::cl100k:
    case SplitKind::qwen2: {
      const auto pattern = split == SplitKind::cl100k ? kCl100kPattern : kQwen2Pattern;
      return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    }
    case SplitKind::digits:
    case SplitKind::digit_runs:
      return {{"type", "Digits"}, {"individual_digits", split == SplitKind::digits}};
    case SplitKind::gpt2:
      break;
  }
  return nullptr;
}

ordered_json pre_tokenizer(SplitKind split) {
  if (split == SplitKind::gpt2) return byte_level(true);
  ordered_json parts = ordered_json::array({split_component(split), byte_level(false)});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

ordered_json added_tokens(const std::vector<std::string>& tokens) {
  ordered_json list = ordered_json::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    list.push_back({{"id", id},
                    {"content", tokens[id]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  }
  return list;
}

}  // namespace

std::string TrainedBpe::to_json() const {
  // Built as a list of pairs, because an ordered object searches all of its keys for each insertion.
  ordered_json::object_t vocab;
  vocab.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) vocab.push_back({tokens[id], id});
  // Merges are written as strings, which every version can read. The spelling of bytes contains no spaces.
  ordered_json pairs = ordered_json::array();
  for (const auto& [left, right] : merges) {
    pairs.push_back(tokens[static_cast<size_t>(left)] + " " + tokens[static_cast<size_t>(right)]);
  }
  ordered_json model = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", nullptr},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", false},
                        {"byte_fallback", false},
                        {"ignore_merges", false}};
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(pairs);
  ordered_json file = {{"version", "1.0"},          {"truncation", nullptr},
                       {"padding", nullptr},        {"added_tokens", added_tokens(special_tokens)},
                       {"normalizer", nullptr},     {"pre_tokenizer", pre_tokenizer(split)},
                       {"post_processor", nullptr}, {"decoder", byte_level(true)}};
  file["model"] = std::move(model);
  return file.dump(2);
}

}  // namespace gradmill
