// SPDX-License-Identifier: Apache-2.0
// The single list of a step's numbers: their names in files, and how files represent an unknown number.
#pragma once

#include <cmath>

#include "metrics/record.h"

namespace gradmill {

struct StepField {
  enum class Kind : uint8_t {
    number,           // NaN if unknown: null in metrics.jsonl
    number_if_known,  // NaN if unknown: omitted from metrics.jsonl
    bytes,            // 0 if unknown: null in metrics.jsonl
    bytes_if_known,   // 0 if unknown: omitted from metrics.jsonl
    count,            // always known
  };
  const char* name;  // in metrics.jsonl
  Kind kind = Kind::number;
  const char* tensorboard = nullptr;  // null: not written to TensorBoard
  bool always = false;                // written to TensorBoard even if it is not finite
  const char* csv = nullptr;          // null: the column is called `name`
};

// Calls visit(field, member) for every number except the step itself, in the order of metrics.jsonl. `Metrics` is
// StepMetrics, const or not.
template <class Metrics, class Visit>
void visit_step_fields(Metrics& metrics, Visit&& visit) {
  using Kind = StepField::Kind;
  visit(StepField{.name = "epoch", .tensorboard = "train/epoch"}, metrics.epoch);
  visit(StepField{.name = "loss", .tensorboard = "train/loss", .always = true}, metrics.loss);
  visit(StepField{.name = "lr", .tensorboard = "train/learning_rate", .csv = "learning_rate"}, metrics.lr);
  visit(StepField{.name = "grad_norm", .tensorboard = "train/grad_norm", .always = true}, metrics.grad_norm);
  visit(StepField{.name = "tokens_per_s", .tensorboard = "train/tokens_per_s"}, metrics.tokens_per_s);
  visit(StepField{.name = "samples_per_s"}, metrics.samples_per_s);
  visit(StepField{.name = "mfu"}, metrics.mfu);
  visit(StepField{.name = "tokens_seen", .kind = Kind::count}, metrics.tokens_seen);
  visit(StepField{.name = "step_ms"}, metrics.step_ms);
  visit(StepField{.name = "memory_bytes", .kind = Kind::bytes}, metrics.memory_bytes);
  visit(StepField{.name = "loader_stall"}, metrics.loader_stall);
  visit(StepField{.name = "gpu_utilisation", .kind = Kind::number_if_known, .tensorboard = "gpu/utilisation"},
        metrics.gpu.utilisation);
  visit(StepField{.name = "gpu_watts", .kind = Kind::number_if_known, .tensorboard = "gpu/watts"}, metrics.gpu.watts);
  visit(StepField{.name = "gpu_celsius", .kind = Kind::number_if_known, .tensorboard = "gpu/celsius"},
        metrics.gpu.celsius);
  visit(StepField{.name = "gpu_memory_bytes", .kind = Kind::bytes_if_known, .tensorboard = "gpu/memory_bytes"},
        metrics.gpu.memory_bytes);
}

// The value as a number; NaN if the field counts it as unknown.
template <class Value>
double known_number(const StepField& field, const Value& value) {
  const bool bytes = field.kind == StepField::Kind::bytes || field.kind == StepField::Kind::bytes_if_known;
  return bytes && value == Value() ? kUnknown : double(value);
}

// Whether the step changed the weights, and its numbers are finite.
inline bool is_finite(const StepMetrics& metrics) {
  return metrics.finite && std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm);
}

}  // namespace gradmill
