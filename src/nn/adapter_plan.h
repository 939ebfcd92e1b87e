// SPDX-License-Identifier: Apache-2.0
// AdapterPlan: what of a model trains. Without one, everything; with one, low-rank adapters beside frozen linear layers
// and the parameters it names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/weight_format.h"

namespace gradmill {

// What model files keep as one layer: some rows of a weight. y += scale · B (A x), with A (rank, in), B (rows, rank).
struct SliceAdapter {
  std::string name;  // "q_proj"
  int64_t rows = 0;
  int64_t rank = 0;  // 0: this slice has no adapter
  float scale = 0;
};

struct AdapterPlan {
  bool freezes_base = false;
  // Adapters by the name of a linear layer ("layers.0.attention.qkv"), whose slices together are all its rows.
  std::map<std::string, std::vector<SliceAdapter>, std::less<>> linears;
  // Parameters of a frozen base that train in full ("classifier.weight").
  std::set<std::string, std::less<>> trained;
  bool dora = false;                          // magnitudes of the rows beside their directions
  float dropout = 0;                          // of what flows into A; one mask for all slices of a layer
  WeightFormat base = WeightFormat::compute;  // of frozen linear layers inside blocks

  bool trains(std::string_view parameter) const { return !freezes_base || trained.contains(parameter); }
  // Head, embedding, pooler and classifier keep their precision: they are small, or looked up, or decide alone.
  WeightFormat format_of(std::string_view linear, std::string_view parameter) const {
    return linear.starts_with("layers.") && !trains(parameter) ? base : WeightFormat::compute;
  }
};

}  // namespace gradmill
