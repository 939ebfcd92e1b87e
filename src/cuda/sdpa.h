// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN, planned once per shape. A machine without cuDNN, and shapes it refuses, are answers here, not
// errors: the caller has a kernel of our own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"

namespace gradmill::cuda {

class Engine;

class Sdpa {
 public:
  explicit Sdpa(Engine& engine);
  ~Sdpa();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
