// SPDX-License-Identifier: Apache-2.0
#include "metrics/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace gradmill {
namespace {

// Formats three digits with the largest unit that leaves at least 1.
std::string with_unit(double value, double base, const auto& units) {
  size_t unit = 0;
  // 0.9995 of the next unit would be rounded up to it.
  while (unit + 1 < units.size() && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  const double size = std::abs(value);
  if (unit == 0 && value == std::round(value)) return fmt::format("{:.0f}{}", value, units[0]);
  return fmt::format("{:.{}f}{}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return std::isfinite(bytes) ? with_unit(bytes, 1024, kUnits) : "-";
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 5> kUnits = {"", "k", "M", "B", "T"};
  return std::isfinite(count) ? with_unit(count, 1000, kUnits) : "-";
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60, rest = whole % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  if (minutes > 0) return fmt::format("{}:{:02}", minutes, rest);
  return fmt::format("{} s", rest);
}

std::string format_percent(double share) { return std::isfinite(share) ? fmt::format("{:.1f}%", share * 100) : "-"; }

std::string format_loss(double loss) {
  if (std::isnan(loss)) return "nan";
  if (std::isinf(loss)) return loss > 0 ? "inf" : "-inf";
  const double size = std::abs(loss);
  if (size != 0 && (size < 1e-3 || size >= 1e5)) return fmt::format("{:.3e}", loss);
  return fmt::format("{:.{}f}", loss, size < 10 ? 4 : size < 100 ? 3 : 2);
}

}  // namespace gradmill
