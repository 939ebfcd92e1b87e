// SPDX-License-Identifier: Apache-2.0
// ExecContext: everything an op may use. Device, arenas, threads and scalars are parameters, never globals.
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

// Notified of every op that really runs. Used by the profiler, and by tests that wait for each op before the next.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(std::string_view op) = 0;
  virtual void after(std::string_view op) = 0;
};

struct ExecContext {
  DeviceSpec device;
  bool dry = false;                // dry run: only record; nothing executes and tensors have no memory
  Arena persistent{"persistent"};  // weights, gradients, optimiser
  Arena saved{"saved"};            // kept for backward
  Arena scratch{"scratch"};        // freed in reverse order of allocation
  cpu::ThreadPool* pool = nullptr;
  // The GPU. Set whenever `device` is a GPU that is present, even during a dry run, which asks it for workspace sizes.
  cuda::Engine* cuda = nullptr;
  KernelOptions kernels;
  StepScalars* scalars = nullptr;  // in device memory; null during a dry run
  Ledger* ledger = nullptr;        // filled during a dry run or when profiling
  OpObserver* observer = nullptr;

  // The current position in the model ("layers.3.attention"), used to name the owners of memory. It costs two pushes
  // per layer.
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

// Notifies the observer, if there is one, of one op.
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

// Names the part of the model that runs during its lifetime.
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
