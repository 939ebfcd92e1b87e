// SPDX-License-Identifier: Apache-2.0
// FrozenWeights: the weights of a frozen base in memory of their own, which several sessions read.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/arena.h"
#include "core/device_spec.h"
#include "core/weight_format.h"

namespace gradmill {

struct FrozenWeight {
  Shape shape;  // of the parameter
  WeightFormat format = WeightFormat::compute;
  TensorView values;  // or codes
  TensorView scales;  // undefined: not quantised
};

struct FrozenWeights {
  DeviceSpec device;
  DType dtype = DType::fp32;  // what the sessions compute with
  std::map<std::string, FrozenWeight, std::less<>> weights;
  size_t bytes = 0;
  std::shared_ptr<const void> memory;

  // Throws a usage error where sessions of this kind cannot read these weights.
  void check_session(DType session_dtype, const DeviceSpec& session_device) const;
  // Null where the parameter is not among them. Throws a usage error where it is another one with the same name.
  const FrozenWeight* find(const std::string& name, const Shape& shape, WeightFormat format) const;
};

// Where the frozen weights of a session lie, if not in its persistent arena.
struct FrozenPlace {
  Arena* arena = nullptr;                 // in this one
  const FrozenWeights* shared = nullptr;  // or, of those that are there, in these
};

}  // namespace gradmill
