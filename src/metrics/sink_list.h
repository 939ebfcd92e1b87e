// SPDX-License-Identifier: Apache-2.0
// SinkList: several sinks behind one interface. If one fails, the run and the other sinks continue.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "metrics/record.h"

namespace gradmill {

class SinkList final : public MetricsSink {
 public:
  // Called with one line when a sink starts to fail, and not again until the sink has worked in between.
  using Warn = std::function<void(const std::string&)>;
  explicit SinkList(Warn warn) : warn_(std::move(warn)) {}

  void add(std::unique_ptr<MetricsSink> sink);

  void hparams(const Hparams& values) override;
  void step(const StepMetrics& metrics) override;
  void eval(const EvalMetrics& metrics) override;
  void epoch(const EpochMetrics& metrics) override;
  void text(int64_t step, std::string_view tag, std::string_view markdown) override;
  void checkpoint(int64_t step, const std::string& path) override;
  void rewind(int64_t step) override;
  void finish(const RunSummary& summary) override;
  void flush() override;

 private:
  struct Member {
    std::unique_ptr<MetricsSink> sink;
    bool failing = false;
  };
  template <class Call>
  void each(bool writes, const Call& call);

  Warn warn_;
  std::vector<Member> members_;
};

}  // namespace gradmill
