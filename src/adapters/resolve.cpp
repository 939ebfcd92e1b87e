// SPDX-License-Identifier: Apache-2.0
#include "adapters/resolve.h"

#include <algorithm>
#include <cmath>

#include "adapters/module_pattern.h"

namespace gradmill {
namespace {

constexpr std::string_view kWhere = "adapter config";

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

bool names_match(const std::vector<std::string>& names, std::string_view module) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The index of the layer that a module belongs to, as PEFT finds it: the last number in its path with at least two
// names before it and one after it. If `lists` is not empty, the name directly before it must be one of them.
std::optional<int64_t> layer_of(std::string_view module, const std::vector<std::string>& lists) {
  const std::vector<std::string_view> parts = split(module);
  for (size_t i = parts.size() - 1; i-- > 2;) {
    if (!is_number(parts[i])) continue;
    if (!lists.empty() && std::find(lists.begin(), lists.end(), parts[i - 1]) == lists.end()) continue;
    return std::stoll(std::string(parts[i]));
  }
  return std::nullopt;
}

// Matches modules for one config. Expressions are compiled once.
class Matcher {
 public:
  explicit Matcher(const AdapterConfig& config) : config_(config), saved_(saved_modules(config)) {
    if (!config.targets.expression.empty()) targets_.emplace(config.targets.expression, kWhere);
    if (!config.excluded.expression.empty()) excluded_.emplace(config.excluded.expression, kWhere);
    for (const auto& [key, rank] : config.rank_pattern) ranks_.emplace_back(ending(key), rank);
    for (const auto& [key, alpha] : config.alpha_pattern) alphas_.emplace_back(ending(key), alpha);
  }

  // Whether the module, or a module that contains it, is trained in full.
  bool is_saved(std::string_view module) const {
    for (size_t end = module.find('.');; end = module.find('.', end + 1)) {
      const std::string_view outer = module.substr(0, end);
      if (std::any_of(saved_.begin(), saved_.end(), [&](const std::string& name) { return outer.ends_with(name); })) {
        return true;
      }
      if (end == std::string_view::npos) return false;
    }
  }

  bool is_target(std::string_view module, bool is_head) const {
    if (excluded_ ? excluded_->matches(module) : names_match(config_.excluded.names, module)) return false;
    if (config_.targets.all_linear) return !is_head;
    if (targets_) return targets_->matches(module);
    if (!names_match(config_.targets.names, module)) return false;
    if (!config_.layers) return true;
    const std::optional<int64_t> layer = layer_of(module, config_.layers_pattern);
    return layer && std::find(config_.layers->begin(), config_.layers->end(), *layer) != config_.layers->end();
  }

  SliceAdapter adapter_of(std::string_view module) const {
    const int64_t rank = first_match(ranks_, module, config_.rank);
    const double alpha = first_match(alphas_, module, config_.alpha);
    const double by = config_.rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
    return {.rank = rank, .scale = static_cast<float>(alpha / by)};
  }

 private:
  template <class T>
  using Patterns = std::vector<std::pair<ModulePattern, T>>;

  static ModulePattern ending(const std::string& key) { return ModulePattern("(.*\\.)?(" + key + ")", kWhere); }
  template <class T>
  static T first_match(const Patterns<T>& patterns, std::string_view module, T fallback) {
    for (const auto& [pattern, value] : patterns) {
      if (pattern.matches(module)) return value;
    }
    return fallback;
  }

  const AdapterConfig& config_;
  std::vector<std::string> saved_;
  std::optional<ModulePattern> targets_, excluded_;
  Patterns<int64_t> ranks_;
  Patterns<double> alphas_;
};

// Checks that all parts of a parameter, or none, are trained in full.
bool trains_in_full(const Matcher& matcher, const std::vector<HfTensor>& parts) {
  const auto saved = std::count_if(parts.begin(), parts.end(),
                                   [&](const HfTensor& part) { return matcher.is_saved(module_of(part.name)); });
  if (saved == 0) return false;
  if (saved == std::ssize(parts)) return true;
  std::string all;
  for (const HfTensor& part : parts) all += (all.empty() ? "" : ", ") + part.name;
  throw usage_error("modules_to_save names only some of these modules, which Gradmill stores as one parameter: " + all,
                    "name all of them, or none");
}

std::vector<SliceAdapter> slices_of(const Matcher& matcher, const std::vector<HfTensor>& parts, bool is_head) {
  std::vector<SliceAdapter> slices;
  bool any = false;
  for (const HfTensor& part : parts) {
    const std::string module = module_of(part.name);
    SliceAdapter slice;
    if (matcher.is_target(module, is_head)) slice = matcher.adapter_of(module), any = true;
    slice.name = module.substr(module.rfind('.') + 1);
    slice.rows = part.rows;
    slices.push_back(std::move(slice));
  }
  if (!any) slices.clear();
  return slices;
}

}  // namespace

WeightFormat base_format_by_name(std::string_view name) {
  if (name == "bf16") return WeightFormat::compute;
  if (name == "int8") return WeightFormat::int8;
  if (name == "nf4") return WeightFormat::nf4;
  throw usage_error(fmt::format("unknown format of frozen weights '{}'", name), "choose one of: bf16, int8, nf4");
}

std::vector<std::string> saved_modules(const AdapterConfig& config) {
  std::vector<std::string> modules = config.modules_to_save;
  if (config.task_type == "SEQ_CLS") {
    for (const char* head : {"classifier", "score"}) {
      if (std::find(modules.begin(), modules.end(), head) == modules.end()) modules.emplace_back(head);
    }
  }
  return modules;
}

AdapterPlan resolve_adapters(const AdapterConfig& config, const Family& family, const Transformer& base,
                             WeightFormat base_format) {
  const Matcher matcher(config);
  AdapterPlan plan;
  plan.freezes_base = true;
  plan.dora = config.dora;
  plan.dropout = static_cast<float>(config.dropout);
  plan.base = base_format;
  std::string example;
  for (ParamId id = 0; id < base.params().size(); ++id) {
    const ParamSpec& spec = base.params().spec(id);
    const std::vector<HfTensor> parts = hf_tensors(family, base, id);
    if (parts.empty()) continue;
    if (trains_in_full(matcher, parts)) {
      plan.trained.insert(spec.name);
    } else if (spec.linear) {
      const std::string linear = spec.name.substr(0, spec.name.rfind('.'));
      const bool is_head = linear == "head" || linear == "classifier";
      if (example.empty()) example = module_of(parts.front().name);
      std::vector<SliceAdapter> slices = slices_of(matcher, parts, is_head);
      if (!slices.empty()) plan.linears.emplace(linear, std::move(slices));
    }
  }
  if (plan.linears.empty()) {
    throw usage_error("target_modules matches no linear layer of this model",
                      fmt::format("modules have names like '{}'; try target_modules=all-linear", example));
  }
  return plan;
}

}  // namespace gradmill
