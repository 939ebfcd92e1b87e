// SPDX-License-Identifier: Apache-2.0
// WeightMap: where in a source each of a model's parameters is. It is made and checked before any value is read.
#pragma once

#include <string>
#include <vector>

#include "model_files/hf_names.h"
#include "model_files/tensor_source.h"

namespace gradmill {

// Rows of one of our parameters (elements of a vector) that one tensor holds.
struct WeightPart {
  size_t source = 0;  // index of the tensor
  int64_t begin = 0, rows = 0;
  bool transposed = false;  // stored as (in, out)
};

struct WeightMap {
  std::vector<std::vector<WeightPart>> parts;  // by ParamId; empty: the parameter is new
  std::vector<ParamId> fresh;                  // the new parameters
  std::vector<std::string> extra;              // tensors that this model does not use

  // "classifier.weight, classifier.bias", for a message; empty if there are none.
  std::string fresh_names(const ParamTable& params) const;
  std::string extra_names(size_t most = 8) const;
};

// Finds tensors with and without the family's prefix, inside a multimodal model, and under LayerNorm's older names.
// With `new_head`, parameters of heads and poolers may be missing or have another size: they are new. Throws a
// data_error that names the tensor that is missing or misshapen, with what was expected and found.
WeightMap map_weights(const TensorSource& source, const Family& family, const Transformer& model, bool new_head);

}  // namespace gradmill
