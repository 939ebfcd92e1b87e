// SPDX-License-Identifier: Apache-2.0
// Compares pairs and padding with transformers, and splits and weights with scikit-learn.
// tools/make_labelled_goldens.py documents the files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/labelled/labelled_batches.h"
#include "data/labelled/split.h"
#include "support/goldens.h"
#include "tokenizer/load_tokenizer.h"

namespace gradmill::test {
namespace {

using Ints = std::vector<int32_t>;

std::filesystem::path labelled_path(const std::string& name) {
  return golden_path("labelled/" + name).replace_extension(".json");
}

nlohmann::json labelled_golden(const std::string& name) {
  std::ifstream file(labelled_path(name), std::ios::binary);
  return nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

LabelledSet set_of(const nlohmann::json& cases, bool pairs) {
  LabelledSet set;
  set.files = {"goldens"};
  set.pairs = pairs;
  for (const nlohmann::json& entry : cases) {
    set.examples.push_back({.first = entry["first"], .second = pairs ? entry["second"] : ""});
  }
  return set;
}

TEST(LabelledGoldens, SinglesAndPairsAreEncodedAsTransformersDoes) {
  const nlohmann::json golden = labelled_golden("pairs");
  const auto tokenizer = load_tokenizer(labelled_path("tokenizer"));
  const SequenceTemplate& form = tokenizer->sequence_template();
  int64_t compared = 0;
  for (const bool pair : {false, true}) {
    const LabelledSet set = set_of(golden["cases"], pair);
    for (const int64_t limit : {0, 5, 12, 33}) {
      for (const bool left : {false, true}) {
        const EncodedSet encoded(set, *tokenizer, form, {.truncation = {.max_length = limit, .left = left}});
        for (int32_t i = 0; i < set.size(); ++i) {
          for (const nlohmann::json& entry : golden["cases"][static_cast<size_t>(i)]["encodings"]) {
            if (entry["pair"] != pair || entry["limit"] != limit || entry["left"] != left) continue;
            const Sequence sequence = encoded.sequence(i);
            EXPECT_EQ(sequence.ids, entry["ids"].get<Ints>()) << i << " at " << limit;
            EXPECT_EQ(sequence.type_ids, entry["types"].get<Ints>());
            EXPECT_EQ(sequence.special, entry["special"].get<std::vector<uint8_t>>());
            EXPECT_EQ(encoded.length(i), std::ssize(sequence.ids));
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, 10 * 16 + 50 * 8);
}

TEST(LabelledGoldens, BatchesHaveTheTokensOfTransformersPaddedOnes) {
  const nlohmann::json golden = labelled_golden("pairs"), &batch = golden["batch"];
  const auto tokenizer = load_tokenizer(labelled_path("tokenizer"));
  const SequenceTemplate& form = tokenizer->sequence_template();
  const LabelledSet set = set_of(golden["cases"], true);
  const EncodedSet encoded(set, *tokenizer, form, {.truncation = {.max_length = batch["limit"]}});
  const LabelledBatches batches(encoded, {0, 1, 2, 3, 4, 5, 6, 7},
                                {.training = false, .order = ExampleOrder::sequential, .batch_size = 8});
  const MicroBatch micro = batches.step(0).micro.at(0);
  ASSERT_EQ(micro.num_seqs, 8);
  for (size_t s = 0; s < 8; ++s) {
    const auto seq =
        static_cast<size_t>(std::ranges::find(micro.examples, static_cast<int32_t>(s)) - micro.examples.begin());
    const auto begin = micro.cu_seqlens[seq], end = micro.cu_seqlens[seq + 1];
    Ints ids(micro.tokens.begin() + begin, micro.tokens.begin() + end);
    Ints types(micro.token_types.begin() + begin, micro.token_types.begin() + end);
    Ints mask(ids.size(), 1);
    const size_t width = batch["ids"][s].size();
    ids.resize(width, golden["special"]["[PAD]"].get<int32_t>());
    types.resize(width, 0);
    mask.resize(width, 0);
    EXPECT_EQ(ids, batch["ids"][s].get<Ints>());
    EXPECT_EQ(types, batch["types"][s].get<Ints>());
    EXPECT_EQ(mask, batch["mask"][s].get<Ints>());
  }
}

// The largest deviation of a class's number of examples in a part from its share.
double worst(const Ints& classes, const std::vector<Ints>& parts, const std::vector<double>& fractions) {
  std::map<int32_t, double> total;
  for (const int32_t id : classes) ++total[id];
  double largest = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    std::map<int32_t, double> have;
    for (const int32_t i : parts[part]) ++have[classes[static_cast<size_t>(i)]];
    for (const auto& [id, count] : total) largest = std::max(largest, std::abs(have[id] - count * fractions[part]));
  }
  return largest;
}

std::vector<Ints> parts_of(const Ints& folds) {
  std::vector<Ints> parts;
  for (int64_t fold = 0; fold < 5; ++fold) parts.push_back(fold_split(folds, fold).validation);
  return parts;
}

TEST(LabelledGoldens, SplitsAreAsBalancedAsScikitLearns) {
  const std::vector<double> fifths(5, 0.2);
  for (const nlohmann::json& entry : labelled_golden("splits")) {
    const Ints classes = entry["classes"], groups = entry["groups"];
    const double slack = 1e-6;
    EXPECT_LE(worst(classes, parts_of(stratified_folds(classes, 5, 0)), fifths),
              entry["worst_fold"].get<double>() + slack);
    const Split split = stratified_split(classes, {0.7, 0.3, 0}, 0);
    EXPECT_LT(worst(classes, {split.train, split.validation}, {0.7, 0.3}), 1.0);
    EXPECT_LE(worst(classes, parts_of(stratified_group_folds(classes, groups, 5, 0)), fifths),
              entry["worst_group_fold"].get<double>() + slack);
    const auto weights = entry["weights"].get<std::vector<double>>();
    const std::vector<float> ours = balanced_weights(classes, std::ssize(weights));
    for (size_t id = 0; id < weights.size(); ++id) EXPECT_FLOAT_EQ(ours[id], static_cast<float>(weights[id]));
  }
}

TEST(LabelledGoldens, GroupingLeavesAsLittlePaddingAsTransformers) {
  const nlohmann::json golden = labelled_golden("order");
  const Ints lengths = golden["lengths"];
  const int64_t batch_size = golden["batch_size"], count = std::ssize(lengths);
  const auto padded = [&](ExampleOrder kind) {
    const Ints order = epoch_order(lengths, kind, batch_size, 1, 0);
    int64_t tokens = 0;
    for (int64_t begin = 0; begin < count; begin += batch_size) {
      int64_t longest = 0;
      const int64_t end = std::min(begin + batch_size, count);
      for (int64_t i = begin; i < end; ++i) {
        longest = std::max<int64_t>(longest, lengths[static_cast<size_t>(order[static_cast<size_t>(i)])]);
      }
      tokens += (end - begin) * ((longest + 7) / 8 * 8);
    }
    return static_cast<double>(tokens);
  };
  const auto theirs = golden["padded_tokens"].get<double>();
  EXPECT_LT(padded(ExampleOrder::grouped), 1.03 * theirs);
  EXPECT_GT(padded(ExampleOrder::shuffled), 1.5 * theirs);
}

}  // namespace
}  // namespace gradmill::test
