// SPDX-License-Identifier: Apache-2.0
#include "run/labelled_inference.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "data/labelled/labelled_batches.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

// Many short texts are needed to fill a GPU, but long ones must not take all of its memory.
constexpr int64_t kMostTokens = 16384, kMostSeqs = 128;

// Puts the answers into the order that was asked for, whatever the batches were.
TaskAnswers in_order(TaskAnswers answers, const std::vector<int32_t>& examples) {
  std::map<int32_t, size_t> place;
  for (size_t i = 0; i < answers.size(); ++i) place[answers.examples[i]] = i;
  TaskAnswers sorted{.num_outputs = answers.num_outputs};
  for (const int32_t example : examples) {
    const size_t i = place.at(example);
    const std::span<const float> logits = answers.logits_of(i);
    sorted.logits.insert(sorted.logits.end(), logits.begin(), logits.end());
    if (!answers.classes.empty()) sorted.classes.push_back(answers.classes[i]);
    if (!answers.targets.empty()) sorted.targets.push_back(answers.targets[i]);
    sorted.examples.push_back(example);
  }
  return sorted;
}

}  // namespace

Truncation truncation(const RunConfig& config) {
  using Strategy = Truncation::Strategy;
  const std::string& name = config.data.truncation;
  const Strategy strategy = name == "only_first"    ? Strategy::only_first
                            : name == "only_second" ? Strategy::only_second
                                                    : Strategy::longest_first;
  return {.max_length = config.model.context, .strategy = strategy};
}

EncodedSet encode_set(const LabelledSet& set, const RunTokenizer& run_tokenizer, const RunConfig& config) {
  const Tokenizer& tokenizer = *run_tokenizer.tokenizer;
  const int threads = std::max(1, num_loader_threads(config.data));
  return EncodedSet(set, tokenizer, tokenizer.sequence_template(),
                    {.truncation = truncation(config), .num_threads = threads});
}

std::vector<int32_t> all_examples(const EncodedSet& set) {
  std::vector<int32_t> examples(static_cast<size_t>(set.size()));
  std::iota(examples.begin(), examples.end(), 0);
  return examples;
}

BatchShape inference_shape(int64_t context) {
  return {.eval_seqs = kMostSeqs,
          .context = context,
          .eval_tokens = std::max(context, std::min(kMostTokens, kMostSeqs * context))};
}

TaskAnswers answer_examples(Session& session, const Task& task, const EncodedSet& set, std::vector<int32_t> examples,
                            const std::function<bool()>& stop_requested) {
  const SessionOptions& sizes = session.options();
  // Sorted by length, batches waste few rows.
  const LabelledBatches batches(set, examples,
                                {.training = false,
                                 .order = ExampleOrder::grouped,
                                 .batch_size = sizes.eval_seqs,
                                 .micro_seqs = sizes.eval_seqs,
                                 .micro_tokens = sizes.eval_tokens,
                                 .max_length = sizes.context});
  const auto visit = [&](const RunData::UseBatch& use) {
    for (int64_t step = 0; step < batches.steps_per_epoch(); ++step) {
      for (const MicroBatch& micro : batches.step(step).micro) {
        if (!use(micro)) return;
      }
    }
  };
  TaskAnswers answers = answer(session, task, visit, stop_requested);
  return answers.stopped ? answers : in_order(std::move(answers), examples);
}

}  // namespace gradmill
