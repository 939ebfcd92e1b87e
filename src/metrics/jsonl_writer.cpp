// SPDX-License-Identifier: Apache-2.0
#include "metrics/jsonl_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "metrics/step_fields.h"

namespace gradmill {
namespace {

// Builds one line. JSON has no NaN or infinity, so these become null.
class Line {
 public:
  explicit Line(std::string_view kind) { fmt::format_to(std::back_inserter(text_), R"({{"kind":"{}")", kind); }

  Line& number(std::string_view key, double value) {
    if (std::isfinite(value)) return raw(key, value);
    return raw(key, "null");
  }
  template <class T>
  Line& raw(std::string_view key, const T& value) {
    fmt::format_to(std::back_inserter(text_), R"(,"{}":{})", key, value);
    return *this;
  }
  std::string_view finish() {
    text_ += "}\n";
    return text_;
  }

 private:
  std::string text_;
};

bool is_kept(std::string_view line, int64_t last_step) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() && step->get<int64_t>() <= last_step;
}

}  // namespace

JsonlWriter::JsonlWriter(const std::filesystem::path& path, int64_t resume_step, SecondsClock clock)
    : file_(path, std::move(clock)) {
  rewind(resume_step);
}

void JsonlWriter::step(const StepMetrics& metrics) {
  using Kind = StepField::Kind;
  Line line("train");
  line.raw("step", metrics.step);
  visit_step_fields(metrics, [&](const StepField& field, const auto& value) {
    const double number = known_number(field, value);
    const bool may_be_left_out = field.kind == Kind::number_if_known || field.kind == Kind::bytes_if_known;
    if (may_be_left_out && !std::isfinite(number)) return;
    if (field.kind == Kind::count || (field.kind == Kind::bytes_if_known)) {
      line.raw(field.name, value);
    } else {
      line.number(field.name, number);
    }
  });
  line.raw("finite", is_finite(metrics));
  file_.append(line.finish());
}

void JsonlWriter::eval(const EvalMetrics& metrics) {
  Line line("eval");
  line.raw("step", metrics.step).number("epoch", metrics.epoch).number("loss", metrics.loss);
  if (metrics.values.empty()) line.number("perplexity", metrics.perplexity);
  for (const auto& [name, value] : metrics.values) line.number(name, value);
  line.number("seconds", metrics.seconds).raw("best", metrics.best);
  line.raw("finite", std::isfinite(metrics.loss));
  file_.append(line.finish());
}

void JsonlWriter::text(int64_t step, std::string_view tag, std::string_view markdown) {
  const auto quoted = [](std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  Line line("text");
  line.raw("step", step).raw("tag", quoted(tag)).raw("text", quoted(markdown));
  file_.append(line.finish());
}

void JsonlWriter::rewind(int64_t step) {
  file_.cut_lines([step](std::string_view line) { return is_kept(line, step); });
}

}  // namespace gradmill
