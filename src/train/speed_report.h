// SPDX-License-Identifier: Apache-2.0
// Compares the speed of a run's steps with what its device can do on paper, and says what to change if they are slow.
#pragma once

#include "config/run_config.h"
#include "core/device_spec.h"
#include "metrics/record.h"

namespace gradmill {

struct StepWork {
  double seconds = 0,
         stall_seconds = 0;  // the whole step; an upper bound of the part in which the device waited for data
  double tokens = 0, flops = 0;
  double utilisation = kUnknown;  // of the GPU, according to its driver; 0 to 1
};

class SpeedReport {
 public:
  SpeedReport() = default;
  // FLOP/s: the dense peak of the run's precision, and the rate if each op is as fast as its roofline. If the rates of
  // the device are unknown they are 0 and infinite.
  SpeedReport(const DeviceSpec& device, double peak_flops, double roofline_flops)
      : device_(device), peak_flops_(peak_flops), roofline_flops_(roofline_flops) {}

  // Leaves out the first steps, which make plans, time algorithms and capture graphs.
  void add(const StepWork& step);

  // Lines for the user, of which the first begins with "speed"; none if there were too few steps to judge.
  std::vector<std::string> lines(const RunConfig& config) const;

 private:
  std::string judge(double share) const;
  std::vector<std::string> advice(const RunConfig& config, double share) const;

  DeviceSpec device_;
  double peak_flops_ = 0, roofline_flops_ = 0;
  int64_t seen_ = 0, steps_ = 0, samples_ = 0;
  StepWork sum_{.utilisation = 0};
};

}  // namespace gradmill
