// SPDX-License-Identifier: Apache-2.0
// Reads config.json of a Hugging Face model into a TransformerSpec, and writes it. Keys that change the maths are read
// or refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "model_files/hf_config.h"

namespace gradmill {

// `where` names the file in messages. Throws a data_error that names file, key and value, and what is supported.
HfConfig read_model_config(std::string_view text, std::string_view where);

// Of a model that is trained from scratch, as its family's preset describes it: no file says anything more.
HfConfig new_model_config(const Family& family, TransformerSpec spec);

// The same body with another head: a classifier with these labels (one label: a score), a language model, or none.
// Throws a usage_error for a head that the family does not have.
void set_head(HfConfig& config, HeadKind head, std::vector<std::string> labels = {});

// Whether the source describes a model of several parts, of which `config` is the text part.
bool is_multimodal(const HfConfig& config);

// config.json for a model saved with tensors of this dtype: the source's text with updated values for the keys that
// training may change, or without a source all that the spec has. For a multimodal source it is the config of the text
// part.
std::string write_model_config(const HfConfig& config, DType dtype);

}  // namespace gradmill
