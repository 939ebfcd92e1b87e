// SPDX-License-Identifier: Apache-2.0
// What a session is made with, besides the model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/communicator.h"
#include "core/device_spec.h"
#include "core/dtype.h"
#include "core/kernel_options.h"
#include "nn/frozen_weights.h"
#include "nn/save_policy.h"
#include "optim/optimizer.h"
#include "session/batch_shape.h"

namespace gradmill {

// For fp16, whose gradients underflow: the loss is multiplied by the scale, and gradients are divided by it in fp32.
struct LossScaling {
  float initial = 1;
  uint32_t growth_steps = 0;  // finite steps after which the scale doubles; 0: it stays
};

struct SessionOptions : BatchShape {
  DeviceSpec device = host_cpu();
  int num_threads = 1;
  DType dtype = DType::fp32;
  SavePolicy policy = SavePolicy::none();
  AdamWOptions adamw;
  float ema_decay = 0;  // decay of averaged weights; 0: none are kept
  float dropout = 0;
  uint64_t seed = 0;
  bool inference = false;        // only evaluates and generates: no gradients, moments or averages, no memory for steps
  bool sequence_losses = false;  // a language model's Session::eval_sequences may be called
  bool poison = false;           // fill every allocation with NaN first: for tests
  KernelOptions kernels;
  LossScaling loss_scaling;
  // For several sessions with one frozen base: the first session has it in a block besides its slab and shares it
  // (Session::share_frozen), the others read it.
  bool frozen_beside_slab = false;
  std::shared_ptr<const FrozenWeights> frozen;
  Communicator* communicator = &single_rank();  // the other ranks of the training; it must outlive the session
  bool capture = false;                         // replay steps as graphs if the device supports it
  bool autotune = false;                        // time the libraries' algorithms in the first step
  std::string tuning_cache;                     // file that stores the timings
  std::function<void(const std::string&)> note = [](const std::string&) {};

  const BatchShape& shape() const { return *this; }
  BatchShape& shape() { return *this; }
};

}  // namespace gradmill
