// SPDX-License-Identifier: Apache-2.0
// A ladder as text and as JSON.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "metrics/format.h"
#include "bench/ladder.h"
#include "report/text_table.h"

namespace gradmill {
namespace {

using Row = std::vector<std::string>;

std::string speed(const RungResult& rung) { return fmt::format("{:.0f}", rung.median()); }

// "± 0.4% (98.1k..98.9k)"
std::string spread(const RungResult& rung) {
  const double half = rung.half_interval();
  if (!std::isfinite(half)) return "-";
  const auto [low, high] = std::minmax_element(rung.tokens_per_second.begin(), rung.tokens_per_second.end());
  return fmt::format("± {:.1f}% ({}..{})", half / rung.median() * 100, format_count(*low), format_count(*high));
}

std::string bytes_or_dash(size_t bytes) { return bytes == 0 ? "-" : format_bytes(double(bytes)); }

// The speed relative to another rung: "x 1.85".
std::string factor(const RungResult& rung, const RungResult* other) {
  return other == nullptr ? "-" : fmt::format("x {:.2f}", rung.median() / other->median());
}

Row row_of(const RungResult& rung, const RungResult* reference, std::string comparison) {
  if (!rung.ran()) return {rung.name, "not run", "-", "-", "-", "-", "-", "-", "-", "-"};
  const Parity difference = parity(rung, *reference);
  const std::string verdict = &rung == reference ? "reference" : difference.ok() ? "ok" : "OFF";
  return {rung.name,
          speed(rung),
          spread(rung),
          std::move(comparison),
          bytes_or_dash(rung.memory_bytes),
          bytes_or_dash(rung.driver_bytes),
          format_loss(rung.loss),
          fmt::format("{:.5f}", difference.loss_difference),
          fmt::format("{:.2f}%", difference.grad_difference * 100),
          verdict};
}

Row header(std::string first, std::string comparison) {
  return {std::move(first), "tokens/s",  "95% (range)", std::move(comparison), "planned",
          "driver",         "mean loss", "differs",     "gradient differs",    "parity"};
}

std::string climb_table(const Ladder& ladder) {
  std::vector<Row> rows = {header("rung", "gain")};
  const RungResult* before = nullptr;
  for (const RungResult& rung : ladder.climb) {
    rows.push_back(row_of(rung, ladder.reference(), rung.ran() ? factor(rung, before) : ""));
    if (rung.ran()) before = &rung;
  }
  return markdown_table(rows);
}

const RungResult* everything_on(const Ladder& ladder) {
  for (const RungResult& rung : ladder.climb) {
    if (rung.name == ladder.everything && rung.ran()) return &rung;
  }
  return nullptr;
}

std::string all_but_table(const Ladder& ladder) {
  std::vector<Row> rows = {header("switched off", "relative to all on")};
  const RungResult* all = everything_on(ladder);
  const RungResult* reference = ladder.reference();
  if (all != nullptr) rows.push_back(row_of(*all, reference, factor(*all, all)));
  if (all != nullptr) rows.back()[0] = "nothing";
  for (const RungResult& rung : ladder.all_but) {
    rows.push_back(row_of(rung, reference != nullptr ? reference : &rung, rung.ran() ? factor(rung, all) : ""));
  }
  return markdown_table(rows);
}

// Reasons and notes of the sessions, which are too long for a table cell. Equal notes of several rungs are printed
// once.
std::string remarks(const std::vector<RungResult>& rungs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;  // each note, and its rungs
  const auto add = [&](const std::string& remark, const std::string& rung) {
    const auto known = std::ranges::find(said, remark, [](const auto& entry) { return entry.first; });
    if (known == said.end()) {
      said.push_back({remark, {rung}});
    } else {
      known->second.push_back(rung);
    }
  };
  for (const RungResult& rung : rungs) {
    if (!rung.ran()) add(rung.failure, rung.name);
    for (const std::string& note : rung.notes) add(note, rung.name);
  }
  std::string text;
  for (const auto& [remark, by] : said) text += fmt::format("- {}: {}\n", fmt::join(by, ", "), remark);
  return text.empty() ? text : "\n" + text;
}

nlohmann::ordered_json json_of(const RungResult& rung, const RungResult* reference) {
  nlohmann::ordered_json object = {{"name", rung.name}, {"settings", rung.settings}, {"notes", rung.notes}};
  if (!rung.ran()) {
    object["failure"] = rung.failure;
    return object;
  }
  // JSON has no NaN: nlohmann writes null.
  object["tokens_per_s"] = rung.median();
  object["tokens_per_s_95"] = rung.half_interval();
  object["repeats"] = rung.tokens_per_second;
  object["memory_bytes"] = rung.memory_bytes;
  object["driver_bytes"] = rung.driver_bytes;
  object["mean_loss"] = rung.loss;
  object["first_grad_norm"] = rung.grad_norm;
  const Parity difference = parity(rung, reference != nullptr ? *reference : rung);
  object["loss_difference"] = difference.loss_difference;
  object["grad_difference"] = difference.grad_difference;
  object["parity"] = difference.ok();
  return object;
}

}  // namespace

std::string rung_line(const RungResult& result) {
  if (!result.ran()) return fmt::format("{}: not run: {}", result.name, result.failure);
  return fmt::format("{}: {} tokens/s, {}", result.name, speed(result), bytes_or_dash(result.memory_bytes));
}

std::string ladder_markdown(const Ladder& ladder) {
  std::string text =
      fmt::format("# What each optimisation gives\n\n- device: {}\n- model: {}\n\n", ladder.device, ladder.model);
  text += climb_table(ladder) + remarks(ladder.climb);
  if (!ladder.all_but.empty()) {
    text += "\n## Everything on except one thing\n\n" + all_but_table(ladder) + remarks(ladder.all_but);
  }
  const RungResult* reference = ladder.reference();
  text += fmt::format(
      "\nEach rung adds to those above it; its gain is relative to the last of them that ran. Speed: median of {} "
      "repeats "
      "of {} steps each, on random tokens. Planned: the slab and library workspaces; driver: all memory used on the "
      "device. Parity with '{}': mean loss over the same steps within {:g}, gradient norm of the first step within "
      "{:g}%.\n",
      ladder.repeats, ladder.steps, reference != nullptr ? reference->name : "no rung that ran", Parity::kLossTolerance,
      Parity::kGradTolerance * 100);
  return text;
}

std::string ladder_json(const Ladder& ladder) {
  const RungResult* reference = ladder.reference();
  nlohmann::ordered_json object = {{"device", ladder.device},
                                   {"model", ladder.model},
                                   {"steps", ladder.steps},
                                   {"repeats", ladder.repeats},
                                   {"reference", reference != nullptr ? reference->name : ""},
                                   {"everything_on", ladder.everything},
                                   {"loss_tolerance", Parity::kLossTolerance},
                                   {"grad_tolerance", Parity::kGradTolerance},
                                   {"climb", nlohmann::ordered_json::array()},
                                   {"all_but", nlohmann::ordered_json::array()}};
  for (const RungResult& rung : ladder.climb) object["climb"].push_back(json_of(rung, reference));
  for (const RungResult& rung : ladder.all_but) object["all_but"].push_back(json_of(rung, reference));
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace gradmill
