// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "data/records/bad_records.h"
#include "data/labelled/words.h"

namespace gradmill {
namespace {

// About ten bins. Their width is 1, 2 or 5 times a power of ten.
std::vector<LengthBin> make_bins(int64_t shortest, int64_t longest) {
  constexpr int64_t kMostBins = 12;
  int64_t width = 1;
  for (int step = 0; longest / width - shortest / width >= kMostBins; ++step)
    width = step % 3 == 1 ? width / 2 * 5 : width * 2;
  std::vector<LengthBin> bins;
  for (int64_t first = shortest / width * width; first <= longest; first += width) {
    bins.push_back({first, first + width - 1, 0});
  }
  return bins;
}

void add_lengths(LabelledSummary& summary, std::vector<int64_t> lengths) {
  if (lengths.empty()) return;
  std::ranges::sort(lengths);
  const auto at = [&](double part) {
    return lengths[static_cast<size_t>(std::ceil(part * static_cast<double>(lengths.size()))) - 1];
  };
  summary.total_tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  summary.shortest = lengths.front();
  summary.longest = lengths.back();
  summary.median = at(0.5);
  summary.percentile_95 = at(0.95);
  summary.lengths = make_bins(summary.shortest, summary.longest);
  for (const int64_t length : lengths) {
    const int64_t width = summary.lengths[0].last - summary.lengths[0].first + 1;
    ++summary.lengths[static_cast<size_t>((length - summary.lengths[0].first) / width)].count;
    summary.num_cut += summary.max_length > 0 && length > summary.max_length;
  }
}

bool is_blank(const std::string& text) { return text.find_first_not_of(kBlanks) == std::string::npos; }

void add_label(LabelledSummary& summary, const LabelledSet& set, const LabelledExample& example) {
  if (!set.is_labelled(example)) {
    ++summary.num_unlabelled;
  } else if (!set.regression) {
    ++summary.label_counts[static_cast<size_t>(example.label)];
  }
}

void add_targets(LabelledSummary& summary, const std::vector<double>& targets) {
  if (targets.empty()) return;
  const auto count = static_cast<double>(targets.size());
  summary.target_min = *std::ranges::min_element(targets);
  summary.target_max = *std::ranges::max_element(targets);
  summary.target_mean = std::accumulate(targets.begin(), targets.end(), 0.0) / count;
  double squares = 0;
  for (const double target : targets) squares += (target - summary.target_mean) * (target - summary.target_mean);
  summary.target_deviation = std::sqrt(squares / count);
}

std::string bar(int64_t count, int64_t most) {
  constexpr int64_t kWidth = 40;
  // A count that is not 0 always has a visible bar.
  const int64_t width = count == 0 ? 0 : std::max<int64_t>(1, count * kWidth / most);
  return std::string(static_cast<size_t>(width), '#');
}

std::string percent(int64_t part, int64_t whole) {
  return fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1)));
}

std::string describe_labels(const LabelledSummary& summary) {
  constexpr size_t kMost = 20;
  const auto count_of = [&](size_t id) { return summary.label_counts[id]; };
  std::vector<size_t> order(summary.label_counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > kMost) std::ranges::stable_sort(order, std::ranges::greater{}, count_of);
  const size_t shown = std::min(order.size(), kMost);
  size_t width = 0;
  int64_t most = 1;
  for (size_t i = 0; i < shown; ++i) {
    width = std::max(width, shown_name(summary.label_names[order[i]]).size());
    most = std::max(most, count_of(order[i]));
  }
  std::string text = fmt::format("labels: {}\n", order.size());
  for (size_t i = 0; i < shown; ++i) {
    const int64_t count = count_of(order[i]);
    text += fmt::format("  {:<{}}  {:>9}  {:>6}  {}\n", shown_name(summary.label_names[order[i]]), width, count,
                        percent(count, summary.num_examples), bar(count, most));
  }
  if (order.size() > shown) text += fmt::format("  and {} more\n", order.size() - shown);
  return text;
}

std::string describe_lengths(const LabelledSummary& summary) {
  std::string text = fmt::format("tokens: {} in all; lengths {} to {}, median {}, 95% up to {}\n", summary.total_tokens,
                                 summary.shortest, summary.longest, summary.median, summary.percentile_95);
  int64_t most = 1;
  for (const LengthBin& bin : summary.lengths) most = std::max(most, bin.count);
  for (const LengthBin& bin : summary.lengths) {
    const std::string range =
        bin.first == bin.last ? std::to_string(bin.first) : fmt::format("{}-{}", bin.first, bin.last);
    text += fmt::format("  {:>13}  {:>9}  {:>6}  {}\n", range, bin.count, percent(bin.count, summary.num_examples),
                        bar(bin.count, most));
  }
  if (summary.max_length > 0) {
    text += fmt::format("cut at {} tokens: {} examples, {}\n", summary.max_length, summary.num_cut,
                        percent(summary.num_cut, summary.num_examples));
  }
  return text;
}

}  // namespace

LabelledSummary summarize(const LabelledSet& set, std::span<const int32_t> examples, const EncodedSet* encoded) {
  LabelledSummary summary;
  summary.num_examples = std::ssize(examples);
  summary.num_groups = set.num_groups;
  summary.num_skipped = set.num_skipped;
  summary.pairs = set.pairs;
  summary.regression = set.regression;
  summary.label_names.assign(set.labels.names().begin(), set.labels.names().end());
  summary.label_counts.assign(summary.label_names.size(), 0);
  summary.max_length = encoded == nullptr ? 0 : encoded->max_length();
  std::vector<double> targets;
  std::vector<int64_t> lengths;
  for (const int32_t index : examples) {
    const LabelledExample& example = set.examples[static_cast<size_t>(index)];
    add_label(summary, set, example);
    if (set.regression && set.is_labelled(example)) targets.push_back(example.target);
    summary.num_empty += is_blank(example.first) && is_blank(example.second);
    if (encoded != nullptr) lengths.push_back(encoded->full_length(index));
  }
  add_targets(summary, targets);
  add_lengths(summary, std::move(lengths));
  return summary;
}

LabelledSummary summarize(const LabelledSet& set, const EncodedSet* encoded) {
  std::vector<int32_t> all(set.examples.size());
  std::iota(all.begin(), all.end(), 0);
  return summarize(set, all, encoded);
}

std::string describe(const LabelledSummary& summary) {
  std::string text = fmt::format("examples: {} {}", summary.num_examples, summary.pairs ? "pairs" : "texts");
  const std::pair<int64_t, std::string_view> counts[] = {{summary.num_unlabelled, "unlabelled"},
                                                         {summary.num_empty, "empty"},
                                                         {summary.num_groups, "groups"},
                                                         {summary.num_skipped, "bad records skipped"}};
  for (const auto& [count, what] : counts) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  }
  text += "\n";
  if (summary.regression) {
    text += fmt::format("targets: {:.6g} to {:.6g}, mean {:.6g}, standard deviation {:.6g}\n", summary.target_min,
                        summary.target_max, summary.target_mean, summary.target_deviation);
  } else if (!summary.label_names.empty()) {
    text += describe_labels(summary);
  }
  if (!summary.lengths.empty()) text += describe_lengths(summary);
  return text;
}

}  // namespace gradmill
