// SPDX-License-Identifier: Apache-2.0
// The cost of an op: its floating-point operations and the least number of bytes it must move.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/device_spec.h"

namespace gradmill {

struct OpCost {
  double flops = 0;
  double bytes = 0;
  bool matrix = false;  // runs on matrix units, at DeviceSpec::matrix_flops
};

// Totals per op name. A dry run fills one; a profiled run adds the measured time of each op.
class Ledger {
 public:
  Ledger() = default;
  // With `by_shape`, GEMMs of different shapes get lines of their own.
  explicit Ledger(bool by_shape) : by_shape_(by_shape) {}

  struct Line {
    int64_t calls = 0;
    bool matrix = false;
    double flops = 0;
    double bytes = 0;
    double seconds = 0;   // roofline estimate: per call, the larger of arithmetic time and traffic time
    double measured = 0;  // measured seconds, when profiled
  };

  // `tf32`: matrix units process fp32 operands as tf32.
  void add(const DeviceSpec& device, std::string_view op, DType dtype, const OpCost& cost, bool tf32 = false);
  void add_measured(std::string_view op, double seconds);
  const std::map<std::string, Line, std::less<>>& lines() const { return lines_; }
  Line total() const;
  bool by_shape() const { return by_shape_; }

 private:
  Line& line(std::string_view op);

  bool by_shape_ = false;
  std::map<std::string, Line, std::less<>> lines_;
};

}  // namespace gradmill
