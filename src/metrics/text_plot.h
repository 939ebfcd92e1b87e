// SPDX-License-Identifier: Apache-2.0
// Plots curves with characters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

struct PlotPoint {
  double x, y;
};

struct PlotCurve {
  std::string label;
  char mark;
  std::vector<PlotPoint> points;  // points that are not finite are not drawn
};

// Both axes are linear, from the lowest to the highest value of all curves. A column shows the mean of its points, so
// that noise does not hide the trend. '*' marks where curves meet. Returns "" if there is nothing to draw.
std::string plot_curves(std::string_view title, std::span<const PlotCurve> curves, int width, int height);

}  // namespace gradmill
