// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_reader.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "metrics/step_fields.h"

namespace gradmill {
namespace {

using nlohmann::json;

double number(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_number() ? value->get<double>() : kUnknown;
}

uint64_t count(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_number_unsigned() ? value->get<uint64_t>() : 0;
}

bool flag(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_boolean() && value->get<bool>();
}

void read(const json& object, const char* key, double& value) { value = number(object, key); }
void read(const json& object, const char* key, uint64_t& value) { value = count(object, key); }

StepMetrics step_of(const json& object, int64_t step) {
  StepMetrics metrics{.step = step, .finite = flag(object, "finite")};
  visit_step_fields(metrics, [&](const StepField& field, auto& value) { read(object, field.name, value); });
  return metrics;
}

EvalMetrics eval_of(const json& object, int64_t step) {
  return {.step = step,
          .epoch = number(object, "epoch"),
          .loss = number(object, "loss"),
          .perplexity = number(object, "perplexity"),
          .seconds = number(object, "seconds"),
          .best = flag(object, "best")};
}

// Returns false if the line is not an object with a kind and a step.
bool read_line(const std::string& line, RunRecord& record) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto kind = object.find("kind"), step = object.find("step");
  if (kind == object.end() || step == object.end() || !kind->is_string() || !step->is_number_integer()) return false;
  if (*kind == "train") record.steps.push_back(step_of(object, step->get<int64_t>()));
  if (*kind == "eval") record.evals.push_back(eval_of(object, step->get<int64_t>()));
  return true;
}

}  // namespace

RunRecord read_metrics(const std::filesystem::path& jsonl) {
  std::ifstream file(jsonl, std::ios::binary);
  if (!file) {
    throw data_error(fmt::format("cannot read '{}'", jsonl.string()), "give the folder of a run that logs metrics");
  }
  RunRecord record;
  for (std::string line; std::getline(file, line);) {
    const bool is_cut_short = file.eof();
    if (!read_line(line, record) && !is_cut_short) ++record.unreadable_lines;
  }
  return record;
}

}  // namespace gradmill
