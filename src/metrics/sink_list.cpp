// SPDX-License-Identifier: Apache-2.0
#include "metrics/sink_list.h"

#include <utility>

#include "core/error.h"

namespace gradmill {

void SinkList::add(std::unique_ptr<MetricsSink> sink) { members_.push_back({std::move(sink)}); }

// Most calls only buffer, so their success means nothing. A sink counts as working again after a call that writes
// succeeds.
template <class Call>
void SinkList::each(bool writes, const Call& call) {
  for (Member& member : members_) {
    try {
      call(*member.sink);
      if (writes) member.failing = false;
    } catch (const Error& error) {
      if (!std::exchange(member.failing, true)) warn_(error.what());
    }
  }
}

void SinkList::hparams(const Hparams& values) {
  each(false, [&](MetricsSink& sink) { sink.hparams(values); });
}
void SinkList::step(const StepMetrics& metrics) {
  each(false, [&](MetricsSink& sink) { sink.step(metrics); });
}
void SinkList::eval(const EvalMetrics& metrics) {
  each(false, [&](MetricsSink& sink) { sink.eval(metrics); });
}
void SinkList::epoch(const EpochMetrics& metrics) {
  each(false, [&](MetricsSink& sink) { sink.epoch(metrics); });
}
void SinkList::text(int64_t step, std::string_view tag, std::string_view markdown) {
  each(false, [&](MetricsSink& sink) { sink.text(step, tag, markdown); });
}
void SinkList::checkpoint(int64_t step, const std::string& path) {
  each(false, [&](MetricsSink& sink) { sink.checkpoint(step, path); });
}
void SinkList::rewind(int64_t step) {
  each(false, [&](MetricsSink& sink) { sink.rewind(step); });
}
void SinkList::finish(const RunSummary& summary) {
  each(false, [&](MetricsSink& sink) { sink.finish(summary); });
}
void SinkList::flush() {
  each(true, [](MetricsSink& sink) { sink.flush(); });
}

}  // namespace gradmill
