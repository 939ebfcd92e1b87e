// SPDX-License-Identifier: Apache-2.0
#include "run/preset.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "core/gpu_catalogue.h"
#include "core/error.h"
#include "run/fit_plan.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

constexpr double kGiB = double(size_t{1} << 30);

// Reads "12", "12GB" or "12GiB"; nothing for a name.
std::optional<double> gibibytes(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const bool is_size = error == std::errc() && value > 0 && (unit.empty() || unit == "GB" || unit == "GiB");
  return is_size ? std::optional(value) : std::nullopt;
}

size_t memory_of(const std::string& name, const DeviceSpec& device) {
  if (name == "auto") return device.memory_bytes;
  const std::optional<double> size = gibibytes(name);
  const size_t asked = size ? static_cast<size_t>(*size * kGiB) : device_by_name(name).memory_bytes;
  return std::min(asked, device.memory_bytes);
}

// Defaults and the values of groups may be changed; settings that the user wrote may not.
bool is_free(const LoadedConfig& config, const std::string& key) {
  const std::string& origin = config.origins.at(key);
  return origin == "default" || origin.starts_with("embedded ");
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string gib(size_t bytes) { return fmt::format("{:.1f}", double(bytes) / kGiB); }

}  // namespace

Preset choose_preset(const LoadedConfig& config, const std::string& name,
                     const std::function<CheckedData(const RunConfig&)>& check_data) {
  const DeviceSpec device = session_options(config.config).device;
  const size_t memory = memory_of(name, device);
  const std::vector<FitChoice> choices =
      fit_choices(config.config, check_data, [&](const std::string& key) { return is_free(config, key); });
  const FitChoice* const best = fastest_fit(choices, memory);
  const std::string where = fmt::format("preset {}: {} GiB of {}", name, gib(memory), device.title);
  if (best == nullptr) {
    const FitChoice& least = *std::ranges::min_element(choices, {}, &FitChoice::bytes);
    throw Error(ExitCode::out_of_memory,
                fmt::format("{}: the run needs {} GiB, and {} GiB with {}", where, gib(choices.front().bytes),
                            gib(least.bytes), least.settings.empty() ? "nothing to change" : least.settings),
                "use a shorter model.context, a smaller model, or adapters");
  }
  if (best->settings.empty()) {
    return {{}, fmt::format("{}: the run takes {} GiB as it is, nothing was changed", where, gib(best->bytes))};
  }
  return {
      words_of(best->settings),
      fmt::format("{}: the run would take {} GiB; with {} it takes {}, and is the fastest on paper of those that fit",
                  where, gib(choices.front().bytes), best->settings, gib(best->bytes))};
}

}  // namespace gradmill
