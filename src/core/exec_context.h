// SPDX-License-Identifier: Apache-2.0
// ExecContext: everything an op may use. Target, arenas, threads and scalars are parameters, never globals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/cost.h"
#include "core/device_spec.h"
#include "core/kernel_options.h"
#include "core/step_scalars.h"

namespace gradmill {

namespace cpu {
class ThreadPool;
}
namespace cuda {
class Engine;
}

// Sees every op that really runs: a profiler, or a test that wants each op finished before the next.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(std::string_view op) = 0;
  virtual void after(std::string_view op) = 0;
};

struct ExecContext {
  DeviceSpec device;
  bool dry = false;                // record only: nothing executes, tensors have no memory
  Arena persistent{"persistent"};  // weights, gradients, optimiser
  Arena saved{"saved"};            // kept for backward
  Arena scratch{"scratch"};        // last in, first out
  cpu::ThreadPool* pool = nullptr;
  // The GPU: set when `device` is a GPU that is present, on paper too (plans then ask it for workspace sizes).
  cuda::Engine* cuda = nullptr;
  KernelOptions kernels;
  StepScalars* scalars = nullptr;  // in device memory; null on paper
  Ledger* ledger = nullptr;        // filled on paper, or when profiling
  OpObserver* observer = nullptr;

  // Where we are in the model ("layers.3.attention"), for owners' names. Costs nothing but two pushes a layer.
  struct ScopeEntry {
    std::string_view name;
    int index;
  };
  std::vector<ScopeEntry> scopes;

  std::string path(std::string_view leaf) const {
    std::string text;
    for (const ScopeEntry& entry : scopes) {
      text += entry.name;
      if (entry.index >= 0) text += "." + std::to_string(entry.index);
      text += ".";
    }
    return text + std::string(leaf);
  }

  TensorView alloc(Arena& arena, const Shape& shape, DType dtype, std::string_view what) {
    return arena.alloc(shape, dtype, [&] { return path(what); });
  }
  TensorView alloc_scratch(const Shape& shape, DType dtype, std::string_view what) {
    return alloc(scratch, shape, dtype, what);
  }
  void record(std::string_view op, DType dtype, const OpCost& cost) {
    if (ledger != nullptr) ledger->add(device, op, dtype, cost, kernels.tf32);
  }
};

// Shows one op to the observer, if there is one.
class OpScope {
 public:
  OpScope(ExecContext& ctx, std::string_view op) : observer_(ctx.observer), op_(op) {
    if (observer_ != nullptr) observer_->before(op_);
  }
  ~OpScope() {
    if (observer_ != nullptr) observer_->after(op_);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  OpObserver* observer_;
  std::string_view op_;
};

// Names the part of the model that runs during its life.
class NameScope {
 public:
  NameScope(ExecContext& ctx, std::string_view name, int index = -1) : ctx_(ctx) {
    ctx.scopes.push_back({name, index});
  }
  ~NameScope() { ctx_.scopes.pop_back(); }
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  ExecContext& ctx_;
};

}  // namespace gradmill
