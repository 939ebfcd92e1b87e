// SPDX-License-Identifier: Apache-2.0
// Times ops on the GPU's clock, with one event before and one after each. Inserts pauses where the host is too slow to
// keep the GPU busy. So the times of ops are right, but a profiled step takes longer.
#pragma once

#include <string>
#include <vector>

#include "cuda/engine.h"

namespace gradmill::cuda {

class EventProfiler : public OpObserver {
 public:
  EventProfiler(const Engine& engine, Ledger& ledger) : engine_(engine), ledger_(ledger) {}
  // Waits for the ops and adds their times to the ledger.
  ~EventProfiler() override;
  void before(std::string_view op) override;
  void after(std::string_view op) override;

 private:
  struct Span {
    std::string op;
    Event begin, end;
  };
  const Engine& engine_;
  Ledger& ledger_;
  std::vector<Span> spans_;
};

}  // namespace gradmill::cuda
