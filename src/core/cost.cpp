// SPDX-License-Identifier: Apache-2.0
#include "core/cost.h"

#include <algorithm>

namespace gradmill {

Ledger::Line& Ledger::line(std::string_view op) {
  const auto found = lines_.find(op);
  return found != lines_.end() ? found->second : lines_.emplace(std::string(op), Line{}).first->second;
}

void Ledger::add(const DeviceSpec& device, std::string_view op, DType dtype, const OpCost& cost, bool tf32) {
  Line& sum = line(op);
  const double rate = cost.matrix ? device.matrix_flops(dtype, tf32) : device.fp32_flops;
  ++sum.calls;
  sum.matrix = cost.matrix;
  sum.flops += cost.flops;
  sum.bytes += cost.bytes;
  sum.seconds +=
      std::max(rate > 0 ? cost.flops / rate : 0.0, device.bandwidth > 0 ? cost.bytes / device.bandwidth : 0.0);
}

void Ledger::add_measured(std::string_view op, double seconds) { line(op).measured += seconds; }

Ledger::Line Ledger::total() const {
  Line sum;
  for (const auto& [name, part] : lines_) {
    sum.calls += part.calls;
    sum.flops += part.flops;
    sum.bytes += part.bytes;
    sum.seconds += part.seconds;
    sum.measured += part.measured;
  }
  return sum;
}

}  // namespace gradmill
