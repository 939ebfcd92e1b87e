// SPDX-License-Identifier: Apache-2.0
// The one place that dispatches an op: it records the cost, returns if the run is dry, and otherwise calls the
// implementation for the device and dtype.
#pragma once

#include <cassert>

#include "core/error.h"
#include "core/exec_context.h"

namespace gradmill {

enum class Device : uint8_t { cpu, cuda };

#ifdef GRADMILL_WITH_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

template <class... Ts>
struct TypeList {};
using FloatTypes = TypeList<float, Bf16, Fp16>;
using Fp32Only = TypeList<float>;

// `run` is called as run.template operator()<Device, T>(), where T is the C++ type of `dtype`. A dry run does not call
// it.
template <class... Ts, class Run>
void run_op(ExecContext& ctx, std::string_view name, DType dtype, TypeList<Ts...>, const OpCost& cost, Run&& run) {
  ctx.record(name, dtype, cost);
  const bool supported = ((dtype == dtype_of<Ts>) || ...);
  if (!supported) {
    throw Error(ExitCode::failure, fmt::format("op '{}' has no {} implementation", name, name_of(dtype)),
                "choose another precision");
  }
  if (ctx.dry) return;
  const OpScope scope(ctx, name);
  const auto visit = [&]<class T>() {
    if (dtype != dtype_of<T>) return;
    if (ctx.device.kind == DeviceKind::cpu) run.template operator()<Device::cpu, T>();
    if constexpr (kHasCuda) {
      if (ctx.device.kind == DeviceKind::cuda) run.template operator()<Device::cuda, T>();
    }
  };
  (visit.template operator()<Ts>(), ...);
}

}  // namespace gradmill
