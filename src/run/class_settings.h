// SPDX-License-Identifier: Apache-2.0
// What the settings of labelled data mean: lists of names, weights of classes, changes of wording.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/labelled/augment.h"
#include "data/labelled/labelled_set.h"

namespace gradmill {

// "a, b" as {"a", "b"}; blanks around names are no part of them, and names are not empty.
std::vector<std::string> split_names(const std::string& list);
// As split_names; a path that exists as it stands is one entry.
std::vector<std::string> split_paths(const std::string& list);

// One for each class, or none. `setting` is data.class_weights; `examples` those to train on. Throws a usage_error.
std::vector<float> class_weights(const std::string& setting, const LabelledSet& set, std::span<const int32_t> examples);

// Throws a data_error where the labels are not what the task needs: classes, at least two of them, or numbers.
void check_label_kind(const DataConfig& config, const LabelledSet& set);

// Nothing where no change is asked for. Throws a usage_error where the tokenizer lacks a token for one.
std::optional<Augmenter> make_augmenter(const RunConfig& config, const Tokenizer& tokenizer);

}  // namespace gradmill
