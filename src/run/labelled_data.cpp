// SPDX-License-Identifier: Apache-2.0
#include "run/labelled_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/labelled/read_labelled.h"
#include "core/error.h"
#include "core/seq_layout.h"
#include "files/sha256.h"
#include "data/labelled/split.h"
#include "data/labelled/summary.h"
#include "run/class_settings.h"
#include "run/labelled_inference.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

ExampleOrder order_by_name(const std::string& name) {
  if (name == "grouped") return ExampleOrder::grouped;
  return name == "sequential" ? ExampleOrder::sequential : ExampleOrder::shuffled;
}

std::string hash_of(std::initializer_list<const LabelledSet*> sets) {
  Sha256 hash;
  for (const LabelledSet* set : sets) {
    for (const std::string& name : set->labels.names()) hash.add(name + "\n");
    for (const LabelledExample& example : set->examples) {
      hash.add(
          fmt::format("{} {} {} {}\n", example.first.size(), example.second.size(), example.label, example.target));
      hash.add(example.first);
      hash.add(example.second);
    }
  }
  return hash.hex();
}

std::vector<int64_t> lengths_of(const EncodedSet& set, std::span<const int32_t> examples) {
  std::vector<int64_t> lengths;
  for (const int32_t example : examples) lengths.push_back(set.length(example));
  return lengths;
}

}  // namespace

int64_t usual_tokens(std::span<const int64_t> lengths, int64_t seqs) {
  double sum = 0, squares = 0;
  for (const int64_t length : lengths) {
    sum += double(length);
    squares += double(length) * double(length);
  }
  const double count = double(std::max<size_t>(1, lengths.size())), mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  // Three standard deviations of the sum. The rare batches above this are computed in two parts.
  return static_cast<int64_t>(std::ceil(mean * double(seqs) + 3 * deviation * std::sqrt(double(seqs))));
}

LabelledOptions labelled_options(const DataConfig& config) {
  return {.columns = {.first = config.first_column,
                      .second = config.second_column,
                      .label = config.label_column,
                      .group = config.group_column},
          .label_kind = config.kind() == TaskKind::regress ? LabelKind::real : LabelKind::automatic,
          .bad_records = config.bad_records == "skip" ? BadRecordPolicy::skip : BadRecordPolicy::error};
}

LabelledData::LabelledData(const RunConfig& config, const RunDataOptions& options)
    : RunData(config.data.path, options.tokenizer ? *options.tokenizer : open_run_tokenizer(tokenizer_name(config))),
      num_threads_(num_loader_threads(config.data)),
      context_(config.model.context) {
  read(config, options);
  const Split sides = split(config);
  class_weights_ = class_weights(config.data.class_weights, set_, sides.train);
  make_batches(config, sides, options);
  origin_ = fmt::format("'{}'{} and '{}'", set_.columns.first,
                        set_.pairs ? fmt::format(", '{}'", set_.columns.second) : "", set_.columns.label);
  hash_ = validation_read_ ? hash_of({&set_, &*validation_read_}) : hash_of({&set_});
}

void LabelledData::read(const RunConfig& config, const RunDataOptions& options) {
  LabelledOptions reading = labelled_options(config.data);
  if (options.labels != nullptr && options.labels->size() > 0) {
    reading.labels = *options.labels;
  } else if (!config.data.labels.empty()) {
    reading.labels = LabelMap(split_names(config.data.labels));
  }
  const auto read_files = [&](const std::string& paths) {
    LabelledSet set = read_labelled(list_sources(split_paths(paths)), reading);
    if (!set.skipped.empty()) options.note(set.skipped);
    return set;
  };
  set_ = read_files(config.data.path);
  check_label_kind(config.data, set_);
  if (config.data.kind() == TaskKind::classify && !reading.labels) {
    const LabelMap* const known = options.labels_of_model;
    const auto names = set_.labels.names();
    if (known != nullptr &&
        std::ranges::all_of(names, [&](const std::string& name) { return known->find(name).has_value(); })) {
      reading.labels = *known;
      set_ = read_files(config.data.path);
    }
  }
  const EncodeSetOptions encoding{.truncation = truncation(config), .num_threads = std::max(1, num_threads_)};
  const Tokenizer& tokenizer = *tokenizer_.tokenizer;
  encoded_ = std::make_unique<EncodedSet>(set_, tokenizer, tokenizer.sequence_template(), encoding);
  if (config.data.validation_path.empty()) return;
  if (!set_.regression) reading.labels = set_.labels;
  validation_read_ = read_files(config.data.validation_path);
  validation_encoded_ =
      std::make_unique<EncodedSet>(*validation_read_, tokenizer, tokenizer.sequence_template(), encoding);
  if (validation_read_->pairs != set_.pairs) {
    throw data_error("the training data and the validation data differ: one has pairs, the other single texts",
                     "name the columns with data.first_column and data.second_column");
  }
}

Split LabelledData::split(const RunConfig& config) const {
  if (validation_read_)
    return {.train = all_examples(*encoded_), .validation = all_examples(*validation_encoded_), .test = {}};
  const double held_out = config.data.validation_fraction;
  const SplitFractions fractions{.train = 1 - held_out, .validation = held_out, .test = 0};
  std::vector<int32_t> classes = set_.classes();
  if (set_.regression) {
    constexpr int64_t kBins = 10;
    std::vector<float> targets;
    for (const LabelledExample& example : set_.examples) targets.push_back(example.target);
    classes = target_bins(targets, kBins);
  }
  const auto seed = static_cast<uint64_t>(config.training.seed);
  return set_.num_groups > 0 ? grouped_split(classes, set_.groups(), fractions, seed)
                             : stratified_split(classes, fractions, seed);
}

void LabelledData::make_batches(const RunConfig& config, const Split& sides, const RunDataOptions& ranks) {
  const std::vector<int64_t> lengths = lengths_of(*encoded_, sides.train);
  total_tokens_ = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  longest_ = *std::max_element(lengths.begin(), lengths.end());
  for (const int64_t length : lengths_of(validation_set(), sides.validation)) longest_ = std::max(longest_, length);
  std::optional<Augmenter> augmenter = make_augmenter(config, *tokenizer_.tokenizer);
  if (augmenter) longest_ = context_;  // synonyms may be longer
  const int64_t batch = config.training.batch_size, micro = config.training.micro_batch_size;
  LabelledBatchOptions options{.order = order_by_name(config.data.order), .batch_size = batch, .max_length = longest_};
  options.micro_seqs = micro > 0 ? std::min(micro, batch) : batch;
  const int64_t usual = usual_tokens(lengths, options.micro_seqs);
  const int64_t wanted = config.training.micro_tokens > 0 ? config.training.micro_tokens : token_capacity(usual);
  options.micro_tokens = std::clamp(wanted, longest_, options.micro_seqs * longest_);
  options.seed = static_cast<uint64_t>(config.training.seed);
  options.rank = ranks.rank;
  options.num_ranks = ranks.num_ranks;
  training_ = std::make_unique<LabelledBatches>(*encoded_, sides.train, options, class_weights_, std::move(augmenter));

  // Every rank answers all of them: scores need all answers.
  options.training = false;
  options.rank = 0;
  options.num_ranks = 1;
  options.order = ExampleOrder::sequential;
  options.batch_size = eval_batch_size(config, options.micro_seqs);
  options.micro_tokens = std::clamp(options.batch_size * options.micro_tokens / options.micro_seqs, longest_,
                                    options.batch_size * longest_);
  options.micro_seqs = options.batch_size;
  validation_examples_ = sides.validation;
  validation_ = std::make_unique<LabelledBatches>(validation_set(), sides.validation, options);
}

std::string LabelledData::describe() const {
  std::string classes;
  for (const std::string& name : set_.labels.names()) classes += (classes.empty() ? "" : ", ") + name;
  constexpr size_t kMostShown = 60;
  if (classes.size() > kMostShown) classes = fmt::format("{} classes", set_.labels.size());
  return fmt::format("{}: {} {} for training, {} for validation; {}; {:.1f} tokens on average, {} at most", name_,
                     training_->num_examples(), set_.pairs ? "pairs" : "texts", validation_->num_examples(),
                     set_.regression ? "numbers" : classes, double(total_tokens_) / double(training_->num_examples()),
                     longest_);
}

std::unique_ptr<BatchSource> LabelledData::open(const DataPosition& from, const CrewNote& note) const {
  const auto make = [this](int64_t number) {
    LabelledStep step = training_->step(number);
    StepBatch batch{.step = number, .num_targets = step.num_labelled, .weight_sum = step.weight_sum, .num_tokens = 0};
    for (const MicroBatch& micro : step.micro) *batch.num_tokens += micro.cu_seqlens.back();
    batch.micro = std::move(step.micro);
    return batch;
  };
  return std::make_unique<StepSource<Prefetcher>>(make, num_threads_, std::max(2, num_threads_), from.step, note);
}

void LabelledData::visit_validation(int64_t /*max_tokens*/, const UseBatch& use) const {
  for (int64_t step = 0; step < validation_->steps_per_epoch(); ++step) {
    for (const MicroBatch& micro : validation_->step(step).micro) {
      if (!use(micro)) return;
    }
  }
}

Task LabelledData::task() const {
  return {.kind = set_.regression ? TaskKind::regress : TaskKind::classify, .labels = set_.labels};
}

BatchShape LabelledData::shape(const BatchShape& /*configured*/) const {
  const LabelledCapacity training = training_->capacity(), validation = validation_->capacity();
  return {.train_seqs = training.max_seqs,
          .eval_seqs = validation.max_seqs,
          .seqs_per_row = 1,
          .context = longest_,
          .train_tokens = training.num_tokens,
          .eval_tokens = validation.num_tokens,
          .class_weights = class_weights_};
}

}  // namespace gradmill
