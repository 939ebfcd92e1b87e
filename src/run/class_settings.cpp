// SPDX-License-Identifier: Apache-2.0
#include "run/class_settings.h"

#include <array>
#include <charconv>
#include <filesystem>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr const char* kBlank = " \t";

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Splits "name:2.5"; names may contain colons.
std::pair<std::string, double> parse_weight(const std::string& entry) {
  const size_t colon = entry.rfind(':');
  double weight = 0;
  if (colon != std::string::npos) {
    const std::string number = trimmed(entry.substr(colon + 1));
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    if (error == std::errc() && end == number.data() + number.size()) return {trimmed(entry.substr(0, colon)), weight};
  }
  throw usage_error(fmt::format("data.class_weights: '{}' is not NAME:WEIGHT", entry),
                    "use balanced, or yes:1,no:2.5 for classes yes and no");
}

TokenId token_of(const Tokenizer& tokenizer, std::span<const std::string_view> names, std::string_view setting) {
  for (const std::string_view name : names) {
    if (const std::optional<TokenId> id = tokenizer.id(name)) return *id;
  }
  throw usage_error(fmt::format("{} needs a token {}, which the tokenizer does not have", setting, names.front()),
                    fmt::format("use {}=0", setting));
}

}  // namespace

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = trimmed(list.substr(begin, end - begin));
    if (!name.empty()) names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

std::vector<std::string> split_paths(const std::string& list) {
  std::error_code ignored;
  if (std::filesystem::exists(list, ignored)) return {list};
  return split_names(list);
}

std::vector<float> class_weights(const std::string& setting, const LabelledSet& set,
                                 std::span<const int32_t> examples) {
  if (setting.empty()) return {};
  if (setting == "balanced") {
    std::vector<int32_t> classes;
    for (const int32_t example : examples) classes.push_back(set.examples[static_cast<size_t>(example)].label);
    return balanced_weights(classes, set.labels.size());
  }
  std::vector<std::pair<std::string, double>> weights;
  for (const std::string& entry : split_names(setting)) weights.push_back(parse_weight(entry));
  return named_weights(set.labels, weights);
}

void check_label_kind(const DataConfig& config, const LabelledSet& set) {
  if (config.kind() == TaskKind::classify && set.regression) {
    throw data_error(fmt::format("the labels in '{}' are not whole numbers", set.columns.label),
                     "use data.task=regress, or another data.label_column");
  }
  if (config.kind() == TaskKind::classify && set.labels.size() < 2) {
    throw data_error(fmt::format("the data has only {} class", set.labels.size()),
                     "name all classes with data.labels, or use other data");
  }
  if (config.kind() == TaskKind::regress && !set.regression) {
    throw data_error(fmt::format("the labels in '{}' are not numbers", set.columns.label),
                     "use data.task=classify, or another data.label_column");
  }
}

std::optional<Augmenter> make_augmenter(const RunConfig& config, const Tokenizer& tokenizer) {
  constexpr std::array<std::string_view, 2> kMask{"[MASK]", "<mask>"}, kUnknown{"[UNK]", "<unk>"};
  constexpr std::array<std::string_view, 8> kKept{"[CLS]", "[SEP]", "[PAD]", "[MASK]",
                                                  "<s>",   "</s>",  "<pad>", "<mask>"};
  const AugmentConfig& augment = config.augment;
  if (!augment.on()) return std::nullopt;
  AugmentOptions options{.synonyms = augment.synonyms,
                         .swap = augment.swap,
                         .deletion = augment.deletion,
                         .span_mask = augment.span_mask,
                         .token_dropout = augment.token_dropout};
  if (augment.span_mask > 0) options.mask_id = token_of(tokenizer, kMask, "augment.span_mask");
  if (augment.token_dropout > 0) options.dropout_id = token_of(tokenizer, kUnknown, "augment.token_dropout");
  for (const std::string_view name : kKept) {
    const std::optional<TokenId> id = tokenizer.id(name);
    if (!id) continue;
    options.kept_ids.push_back(*id);
    options.kept_words.emplace_back(name);
  }
  Synonyms synonyms = augment.synonyms_file.empty() ? Synonyms() : Synonyms::from_file(augment.synonyms_file);
  return Augmenter(std::move(options), std::move(synonyms), static_cast<uint64_t>(config.training.seed));
}

}  // namespace gradmill
