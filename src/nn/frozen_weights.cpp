// SPDX-License-Identifier: Apache-2.0
#include "nn/frozen_weights.h"

#include "core/error.h"

namespace gradmill {

void FrozenWeights::check_session(DType session_dtype, const DeviceSpec& session_device) const {
  if (device.name != session_device.name || device.index != session_device.index) {
    throw usage_error(
        fmt::format("the shared frozen weights are on {}, the session is on {}", device.title, session_device.title),
        "share frozen weights between sessions on one device");
  }
  if (dtype != session_dtype) {
    throw usage_error(fmt::format("the shared frozen weights are for {}, the session is for {}", name_of(dtype),
                                  name_of(session_dtype)),
                      "share frozen weights between sessions of one data type");
  }
}

const FrozenWeight* FrozenWeights::find(const std::string& name, const Shape& shape, WeightFormat format) const {
  const auto found = weights.find(name);
  if (found == weights.end()) return nullptr;
  if (found->second.shape != shape || found->second.format != format) {
    throw usage_error(fmt::format("the shared frozen weight '{}' has another shape or format than the model's", name),
                      "share frozen weights between sessions with the same base and the same model.load_in");
  }
  return &found->second;
}

}  // namespace gradmill
