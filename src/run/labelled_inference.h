// SPDX-License-Identifier: Apache-2.0
// A trained classifier or regressor over labelled or unlabelled examples.
#pragma once

#include <vector>

#include "data/batch.h"
#include "data/labelled/encoded_set.h"
#include "data/labelled/labelled_batch.h"
#include "run/run_tokenizer.h"
#include "run/task_evaluation.h"

namespace gradmill {

// How the settings cut sequences.
Truncation truncation(const RunConfig& config);
// As a run with these settings reads the set. All of them must outlive it.
EncodedSet encode_set(const LabelledSet& set, const RunTokenizer& tokenizer, const RunConfig& config);
std::vector<int32_t> all_examples(const EncodedSet& set);

// The batches of a session that only answers, with sequences of up to `context` tokens.
BatchShape inference_shape(int64_t context);
// The answers come in the order of `examples`. The session has the shape above.
TaskAnswers answer_examples(
    Session& session, const Task& task, const EncodedSet& set, std::vector<int32_t> examples,
    const std::function<bool()>& stop_requested = [] { return false; });

}  // namespace gradmill
