// SPDX-License-Identifier: Apache-2.0
// Times ops that finish before they return, as they do on the CPU.
#pragma once

#include <chrono>

#include "core/exec_context.h"

namespace gradmill {

class OpProfiler : public OpObserver {
 public:
  explicit OpProfiler(Ledger& ledger) : ledger_(ledger) {}
  void before(std::string_view) override { start_ = Clock::now(); }
  void after(std::string_view op) override {
    ledger_.add_measured(op, std::chrono::duration<double>(Clock::now() - start_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Ledger& ledger_;
  Clock::time_point start_;
};

}  // namespace gradmill
