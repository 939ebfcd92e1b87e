// SPDX-License-Identifier: Apache-2.0
#include "run/run_adapters.h"

#include <algorithm>
#include <fstream>

#include "adapters/peft_folder.h"
#include "adapters/resolve.h"
#include "core/error.h"
#include "files/file_io.h"
#include "files/sha256.h"
#include "model_files/weight_map.h"
#include "run/class_settings.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

std::string last_bytes(const fs::path& path, int64_t count) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-count, std::ios::end);
  std::string bytes(static_cast<size_t>(count), 0);
  file.read(bytes.data(), count);
  return bytes;
}

// Hashes the size and both ends of every file. Other weights differ there, and hashing all of an 8B model takes a
// minute.
std::string fingerprint(const fs::path& path) {
  constexpr int64_t kEnd = int64_t{1} << 20;
  std::vector<fs::path> files;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  Sha256 hash;
  for (const fs::path& file : files) {
    const auto size = static_cast<int64_t>(fs::file_size(file, ignored));
    hash.add(fmt::format("{} {}\n", file.filename().string(), size));
    hash.add(read_bytes(file, std::min(size, kEnd)));
    hash.add(last_bytes(file, std::min(size, kEnd)));
  }
  return hash.hex();
}

// The config of existing adapters.
AdapterConfig kept_config(const RunConfig& config, const std::string& task_type) {
  const std::string& folder = config.adapter.path;
  AdapterConfig adapter = read_adapter_config(folder);
  if (!adapter.task_type.empty() && adapter.task_type != task_type) {
    throw usage_error(fmt::format("the adapters in '{}' are for {}, not for {}", folder, adapter.task_type, task_type),
                      "set data.task to what they were trained for, or train new ones");
  }
  adapter.task_type = task_type;
  adapter.base_model = config.model.path;
  return adapter;
}

AdapterConfig adapter_config(const RunConfig& config, const Task& task) {
  const AdapterTrainingConfig& settings = config.adapter;
  const std::string task_type = task.peft_type();
  if (!settings.path.empty()) return kept_config(config, task_type);
  AdapterConfig adapter{.task_type = task_type,
                        .base_model = config.model.path,
                        .rank = settings.rank,
                        .alpha = settings.alpha,
                        .dropout = settings.dropout,
                        .rslora = settings.rslora,
                        .dora = settings.kind == "dora"};
  constexpr const char* kExpressionCharacters = "*+?()[]|\\^$";
  if (settings.targets == "all-linear") {
    adapter.targets.all_linear = true;
  } else if (settings.targets.find_first_of(kExpressionCharacters) != std::string::npos) {
    adapter.targets.expression = settings.targets;
  } else {
    adapter.targets.names = split_names(settings.targets);
  }
  adapter.modules_to_save = split_names(settings.modules_to_save);
  return adapter;
}

// The module of the whole model that a tensor is in: "pooler" for "bert.pooler.dense.weight".
std::string outer_module(const Family& family, std::string_view tensor) {
  if (tensor.starts_with(family.params.prefix)) tensor.remove_prefix(family.params.prefix.size());
  return std::string(tensor.substr(0, tensor.find('.')));
}

// A pooler that the files do not have would stay random forever.
void save_new_pooler(AdapterConfig& adapter, const TensorSource& weights, const Family& family,
                     const Transformer& base) {
  for (const ParamId id : map_weights(weights, family, base, true).fresh) {
    if (!base.params().spec(id).name.starts_with("pooler.")) continue;
    const std::string module = outer_module(family, hf_tensors(family, base, id).front().name);
    const std::vector<std::string> saved = saved_modules(adapter);
    if (std::find(saved.begin(), saved.end(), module) == saved.end()) adapter.modules_to_save.push_back(module);
  }
}

}  // namespace

RunAdapters plan_adapters(const RunConfig& config, const Task& task, const Family& family, const Transformer& base,
                          const TensorSource* weights) {
  RunAdapters adapters{.config = adapter_config(config, task),
                       .plan = {},
                       .folder = config.adapter.path,
                       .base_hash = fingerprint(config.model.path)};
  const bool may_have_new_pooler = base.spec().pooler != PoolerKind::none && weights != nullptr;
  if (adapters.folder.empty() && may_have_new_pooler) save_new_pooler(adapters.config, *weights, family, base);
  adapters.plan = resolve_adapters(adapters.config, family, base, base_format_by_name(config.model.load_in));
  return adapters;
}

}  // namespace gradmill
