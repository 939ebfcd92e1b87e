// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/storage.h"
#include "support/test_device.h"

namespace gradmill::test {

class CpuTestDevice : public TestDevice {
 public:
  explicit CpuTestDevice(size_t bytes) : persistent_(bytes), saved_(bytes), scratch_(bytes) {}
  void attach(ExecContext& ctx) override {
    ctx.device = host_cpu();
    ctx.persistent.attach(persistent_.bytes());
    ctx.saved.attach(saved_.bytes());
    ctx.scratch.attach(scratch_.bytes());
    for (Arena* arena : {&ctx.persistent, &ctx.saved, &ctx.scratch}) arena->set_poison(poison_host);
  }

 private:
  Storage persistent_, saved_, scratch_;
};

}  // namespace gradmill::test
