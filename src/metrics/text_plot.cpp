// SPDX-License-Identifier: Apache-2.0
#include "metrics/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/format.h"

namespace gradmill {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
  // The index of the cell, out of `cells`, that contains the value.
  int cell(double value, int cells) const {
    return low == high ? 0 : static_cast<int>(std::lround((value - low) / (high - low) * (cells - 1)));
  }
};

bool is_drawn(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// The mean of the points in each column; NaN for columns without points.
std::vector<double> column_means(const PlotCurve& curve, const Range& x, int columns) {
  std::vector<double> sums(static_cast<size_t>(columns)), counts(sums.size());
  for (const PlotPoint& point : curve.points) {
    if (!is_drawn(point)) continue;
    const auto column = static_cast<size_t>(x.cell(point.x, columns));
    sums[column] += point.y;
    counts[column] += 1;
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i];  // 0 / 0 for columns without points
  return sums;
}

std::string legend(std::span<const PlotCurve> curves) {
  std::string line;
  for (const PlotCurve& curve : curves) line += fmt::format("{} {}   ", curve.mark, curve.label);
  return line + "* both\n";
}

}  // namespace

std::string plot_curves(std::string_view title, std::span<const PlotCurve> curves, int width, int height) {
  constexpr int kLabel = 10, kFrame = 2;
  const int columns = std::max(width - kLabel - kFrame, 10), rows = std::max(height, 3);
  Range x, y;
  for (const PlotCurve& curve : curves) {
    for (const PlotPoint& point : curve.points) {
      if (is_drawn(point)) x.add(point.x);
    }
  }
  if (x.is_empty()) return {};
  std::vector<std::vector<double>> means;
  for (const PlotCurve& curve : curves) means.push_back(column_means(curve, x, columns));
  for (const auto& curve : means) {
    for (double value : curve) {
      if (std::isfinite(value)) y.add(value);
    }
  }

  std::vector<std::string> canvas(static_cast<size_t>(rows), std::string(static_cast<size_t>(columns), ' '));
  for (size_t curve = 0; curve < means.size(); ++curve) {
    for (size_t column = 0; column < means[curve].size(); ++column) {
      if (!std::isfinite(means[curve][column])) continue;
      char& cell = canvas[static_cast<size_t>(rows - 1 - y.cell(means[curve][column], rows))][column];
      cell = cell == ' ' ? curves[curve].mark : '*';
    }
  }

  std::string out = fmt::format("{}\n", title);
  for (int row = 0; row < rows; ++row) {
    const bool labelled = row == 0 || row == rows / 2 || row == rows - 1;
    const double value = y.high - (y.high - y.low) * row / (rows - 1);
    std::string& cells = canvas[static_cast<size_t>(row)];
    cells.erase(cells.find_last_not_of(' ') + 1);
    out += fmt::format("{:>{}} |{}\n", labelled ? format_loss(value) : "", kLabel, cells);
  }
  out += fmt::format("{:>{}} +{:-<{}}\n", "", kLabel, "", columns);
  const std::string last = fmt::format("{:.0f}", x.high);
  out += fmt::format("{:>{}}{:<{}}{}\n", "", kLabel + kFrame, fmt::format("{:.0f}", x.low),
                     columns - static_cast<int>(last.size()), last);
  return out + fmt::format("{:>{}}{}", "", kLabel + kFrame, legend(curves));
}

}  // namespace gradmill
