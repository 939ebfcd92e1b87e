// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_reader.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

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

StepMetrics step_of(const json& object, int64_t step) {
  return {.step = step,
          .epoch = number(object, "epoch"),
          .loss = number(object, "loss"),
          .lr = number(object, "lr"),
          .grad_norm = number(object, "grad_norm"),
          .tokens_per_s = number(object, "tokens_per_s"),
          .samples_per_s = number(object, "samples_per_s"),
          .mfu = number(object, "mfu"),
          .tokens_seen = count(object, "tokens_seen"),
          .step_ms = number(object, "step_ms"),
          .memory_bytes = count(object, "memory_bytes"),
          .finite = flag(object, "finite"),
          .loader_stall = number(object, "loader_stall"),
          .gpu = {.utilisation = number(object, "gpu_utilisation"),
                  .watts = number(object, "gpu_watts"),
                  .celsius = number(object, "gpu_celsius"),
                  .memory_bytes = count(object, "gpu_memory_bytes")}};
}

EvalMetrics eval_of(const json& object, int64_t step) {
  return {.step = step,
          .epoch = number(object, "epoch"),
          .loss = number(object, "loss"),
          .perplexity = number(object, "perplexity"),
          .seconds = number(object, "seconds"),
          .best = flag(object, "best")};
}

// False when the line is not an object with a kind and a step.
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
