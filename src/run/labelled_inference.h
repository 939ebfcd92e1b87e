// SPDX-License-Identifier: Apache-2.0
// Applies a trained classifier or regressor to labelled or unlabelled examples.
#pragma once

#include <vector>

#include "data/batch.h"
#include "data/labelled/encoded_set.h"
#include "data/labelled/labelled_batch.h"
#include "run/run_tokenizer.h"
#include "run/task_evaluation.h"

namespace gradmill {

// How sequences are cut, from the settings.
Truncation truncation(const RunConfig& config);
// Encodes the set as a run with these settings does. All arguments must outlive the result.
EncodedSet encode_set(const LabelledSet& set, const RunTokenizer& run_tokenizer, const RunConfig& config);
std::vector<int32_t> all_examples(const EncodedSet& set);

// The batch shape of a session that only predicts, with sequences of up to `context` tokens.
BatchShape inference_shape(int64_t context);
// Returns the answers in the order of `examples`. The session must have the shape above.
TaskAnswers answer_examples(
    Session& session, const Task& task, const EncodedSet& set, std::vector<int32_t> examples,
    const std::function<bool()>& stop_requested = [] { return false; });

}  // namespace gradmill
