// SPDX-License-Identifier: Apache-2.0
// How fast a run's steps are beside what its device could do on paper, and what to change where they are slow.
#pragma once

#include "config/run_config.h"
#include "core/device_spec.h"
#include "metrics/record.h"

namespace gradmill {

struct StepWork {
  double seconds = 0, stall_seconds = 0;  // the whole step; of it, at most, what the device waited for data
  double tokens = 0, flops = 0;
  double utilisation = kUnknown;  // of the GPU, as its driver sees it; 0 to 1
};

class SpeedReport {
 public:
  SpeedReport() = default;
  // FLOP/s: the dense peak of the run's precision, and what its ops reach if each is as fast as its roofline. Without
  // known rates of the device 0 and infinite.
  SpeedReport(const DeviceSpec& device, double peak_flops, double roofline_flops)
      : device_(device), peak_flops_(peak_flops), roofline_flops_(roofline_flops) {}

  // The first steps make plans, time algorithms and capture graphs: they are left out.
  void add(const StepWork& step);

  // Lines for people, of which the first begins with "speed"; none after too few steps to judge.
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
