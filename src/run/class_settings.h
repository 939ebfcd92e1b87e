// SPDX-License-Identifier: Apache-2.0
// Interprets the settings of labelled data: lists of names, weights of classes, augmentation.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/labelled/augment.h"
#include "data/labelled/labelled_set.h"

namespace gradmill {

// Splits "a, b" into {"a", "b"}. Blanks around names are removed, and names must not be empty.
std::vector<std::string> split_names(const std::string& list);
// Like split_names, but a text that is an existing path is a single entry.
std::vector<std::string> split_paths(const std::string& list);

// One weight per class, or none. `setting` is data.class_weights, `examples` are those to train on. Throws a
// usage_error.
std::vector<float> class_weights(const std::string& setting, const LabelledSet& set, std::span<const int32_t> examples);

// Throws a data_error if the labels are not what the task needs: at least two classes, or numbers.
void check_label_kind(const DataConfig& config, const LabelledSet& set);

// Nothing if no augmentation is set. Throws a usage_error if the tokenizer lacks a token that is needed.
std::optional<Augmenter> make_augmenter(const RunConfig& config, const Tokenizer& tokenizer);

}  // namespace gradmill
