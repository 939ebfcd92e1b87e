// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/raw_labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "core/error.h"
#include "data/records/bad_records.h"

namespace gradmill {
namespace {

constexpr std::string_view kNoLabel = "-1";

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> whole(std::string_view text) { return parse<int64_t>(text); }

// Does not accept "nan" and "inf", which count as words.
std::optional<double> real(std::string_view text) {
  const std::optional<double> number = parse<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

LabelKind detect_kind(const LabelledSet& set, const std::vector<std::string>& raw) {
  std::optional<size_t> word, number;
  bool fraction = false;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i].empty() || raw[i] == kNoLabel) continue;
    const bool is_whole = whole(raw[i]).has_value(), is_number = is_whole || real(raw[i]);
    std::optional<size_t>& first = is_number ? number : word;
    if (!first) first = i;
    fraction = fraction || (is_number && !is_whole);
    if (word && number) {
      throw data_error(
          fmt::format("{}: label {} is a word, but {} on line {} is a number", set.where(set.examples[*word]),
                      shown_name(raw[*word]), shown_name(raw[*number]), set.examples[*number].line),
          "correct one of them, or say that labels are words");
    }
  }
  return word ? LabelKind::words : fraction ? LabelKind::real : LabelKind::integers;
}

// If labels are classes, -1 means that there is none, unless one of the given classes has that name.
bool is_missing(const std::string& text, LabelKind kind) {
  return text.empty() || (text == kNoLabel && kind != LabelKind::real);
}

LabelMap sorted_labels(const std::vector<std::string>& raw, LabelKind kind, const std::string& file) {
  std::set<std::string> words;
  std::set<int64_t> numbers;
  for (const std::string& text : raw) {
    if (is_missing(text, kind)) continue;
    if (kind == LabelKind::words) {
      words.insert(text);
    } else if (const std::optional<int64_t> number = whole(text)) {
      numbers.insert(*number);
    }
    if (std::ssize(words) > kMaxClasses || std::ssize(numbers) > kMaxClasses) {
      throw data_error(fmt::format("'{}': more than {} different labels", file, kMaxClasses),
                       "name the label column, or say that labels are real numbers");
    }
  }
  std::vector<std::string> names(words.begin(), words.end());
  for (const int64_t number : numbers) names.push_back(std::to_string(number));
  return LabelMap(std::move(names));
}

class Resolver {
 public:
  Resolver(LabelledSet& set, LabelKind kind, const LabelledOptions& options)
      : set_(set), kind_(kind), require_(options.require_labels) {
    if (!options.labels) return;
    given_ = true;
    ids_are_labels_ =
        std::ranges::none_of(set.labels.names(), [](const std::string& name) { return whole(name).has_value(); });
  }

  // Returns nothing if the example got its label.
  std::optional<LabelProblem> resolve(int64_t index, const std::string& text) {
    LabelledExample& example = set_.examples[static_cast<size_t>(index)];
    if (set_.regression) example.target = std::numeric_limits<float>::quiet_NaN();
    if (is_missing(text, kind_) && !set_.labels.find(text)) {
      if (!require_) return std::nullopt;
      return LabelProblem{index, true, text.empty() ? "no label" : "label -1, which means that there is none"};
    }
    if (set_.regression) return resolve_number(index, text, example);
    const std::optional<int32_t> id = class_of(text);
    if (!id) return LabelProblem{index, false, unknown(text)};
    example.label = *id;
    return std::nullopt;
  }

 private:
  static std::optional<LabelProblem> resolve_number(int64_t index, const std::string& text, LabelledExample& example) {
    const std::optional<double> number = real(text);
    if (!number || std::abs(*number) > std::numeric_limits<float>::max()) {
      return LabelProblem{index, false, fmt::format("label {} is not a finite number", shown_name(text))};
    }
    example.target = static_cast<float>(*number);
    return std::nullopt;
  }

  std::optional<int32_t> class_of(const std::string& text) const {
    const std::optional<int64_t> number = kind_ == LabelKind::words && !given_ ? std::nullopt : whole(text);
    if (const std::optional<int32_t> id = set_.labels.find(text)) return id;
    if (!number) return std::nullopt;
    if (given_ && ids_are_labels_ && *number >= 0 && *number < set_.labels.size()) return static_cast<int32_t>(*number);
    return set_.labels.find(std::to_string(*number));  // "01" is 1
  }

  std::string unknown(const std::string& text) const {
    if (kind_ == LabelKind::integers && !given_) return fmt::format("label {} is not a whole number", shown_name(text));
    std::string known;
    constexpr int32_t kMost = 10;
    for (int32_t id = 0; id < std::min<int64_t>(set_.labels.size(), kMost); ++id) {
      known += (id == 0 ? "" : ", ") + shown_name(set_.labels.name(id));
    }
    return fmt::format("unknown label {}, known are {}{}", shown_name(text), known,
                       set_.labels.size() > kMost ? ", ..." : "");
  }

  LabelledSet& set_;
  LabelKind kind_;
  bool require_;
  bool given_ = false;
  bool ids_are_labels_ = false;
};

}  // namespace

std::vector<LabelProblem> resolve_labels(LabelledSet& set, const std::vector<std::string>& raw,
                                         const LabelledOptions& options) {
  LabelKind kind = options.label_kind;
  if (kind == LabelKind::automatic) kind = options.labels ? LabelKind::words : detect_kind(set, raw);
  if (kind == LabelKind::real && options.labels) {
    throw usage_error("label names for a regression", "leave them out, or do not ask for real labels");
  }
  set.regression = kind == LabelKind::real;
  if (options.labels) {
    set.labels = *options.labels;
  } else if (!set.regression) {
    set.labels = sorted_labels(raw, kind, set.files.front());
  }
  Resolver resolver(set, kind, options);
  std::vector<LabelProblem> problems;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (std::optional<LabelProblem> problem = resolver.resolve(static_cast<int64_t>(i), raw[i])) {
      problems.push_back(std::move(*problem));
    }
  }
  return problems;
}

}  // namespace gradmill
