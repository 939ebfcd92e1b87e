// SPDX-License-Identifier: Apache-2.0
#include "core/cost.h"

#include <algorithm>

namespace gradmill {

void Ledger::add(const DeviceSpec& device, std::string_view op, DType dtype, const OpCost& cost) {
  auto found = lines_.find(op);
  if (found == lines_.end()) found = lines_.emplace(std::string(op), Line{}).first;
  Line& line = found->second;
  const double rate = cost.matrix ? device.matrix_flops(dtype) : device.fp32_flops;
  ++line.calls;
  line.flops += cost.flops;
  line.bytes += cost.bytes;
  line.seconds += std::max(rate > 0 ? cost.flops / rate : 0.0, device.bandwidth > 0 ? cost.bytes / device.bandwidth : 0.0);
}

Ledger::Line Ledger::total() const {
  Line sum;
  for (const auto& [name, line] : lines_) {
    sum.calls += line.calls;
    sum.flops += line.flops;
    sum.bytes += line.bytes;
    sum.seconds += line.seconds;
  }
  return sum;
}

}  // namespace gradmill
