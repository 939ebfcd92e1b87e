// SPDX-License-Identifier: Apache-2.0
// Opens a folder: finds its files, and where each tensor is.
#include "model_files/model_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/strict_json.h"
#include "model_files/file_text.h"
#include "model_files/float_rows.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr int64_t kMostConfigBytes = int64_t{1} << 24;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The error for a folder without readable weights. It says what the folder has instead.
Error no_weights(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".bin" && ending != ".pt" && ending != ".pth" && ending != ".pkl" && ending != ".ckpt") continue;
    const std::string name = entry.path().filename().string();
    return data_error(
        fmt::format("{}: a pickle file, which can run any code when it is loaded, and there is no {}",
                    entry.path().string(), kSingleFile),
        fmt::format(
            "if you trust it, convert it once: python -c \"import torch, safetensors.torch as s; "
            "s.save_file({{k: v.clone().contiguous() for k, v in torch.load('{}', weights_only=True).items()}}, "
            "'{}', {{'format': 'pt'}})\"",
            name, kSingleFile));
  }
  if (is_file(folder / "adapter_config.json")) {
    return data_error(fmt::format("{}: the folder has an adapter but no model", folder.string()),
                      "give the base model's folder, and the adapter with adapter.path");
  }
  return data_error(fmt::format("{}: the folder has neither {} nor {}", folder.string(), kSingleFile, kIndexFile),
                    "give the folder of a Hugging Face model");
}

// Links must stay in the folder. The exception is Hugging Face's cache, which links to the blobs of the same model.
void check_inside(const fs::path& folder, const fs::path& file) {
  const fs::path home = fs::weakly_canonical(folder), target = fs::weakly_canonical(file);
  if (target.parent_path() == home) return;
  if (home.parent_path().filename() == "snapshots" &&
      target.parent_path() == home.parent_path().parent_path() / "blobs") {
    return;
  }
  throw data_error(fmt::format("{}: the link leads out of the folder, to {}", file.string(), target.string()),
                   "replace it by the file itself");
}

bool is_plain_name(const std::string& name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.ends_with(kEnding) &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos && !name.starts_with('.');
}

}  // namespace

std::map<std::string, std::string> read_shard_index(std::string_view text, std::string_view where) {
  const nlohmann::json document = parse_strict_json(text, where);
  const auto bad = [&](std::string_view what) {
    return data_error(fmt::format("{}: {}", where, what), "fetch the model again");
  };
  const auto map = document.is_object() ? document.find("weight_map") : document.end();
  if (!document.is_object() || map == document.end() || !map->is_object()) throw bad("no object 'weight_map'");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw bad(fmt::format("the file of tensor {} is not a string", quote_for_message(tensor)));
    const auto& name = file.get_ref<const std::string&>();
    if (!is_plain_name(name)) {
      throw bad(fmt::format("tensor {} is in {}, which is not the name of a safetensors file in this folder",
                            quote_for_message(tensor), quote_for_message(name)));
    }
    files.emplace(tensor, name);
  }
  return files;
}

FolderTensors::FolderTensors(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw data_error(fmt::format("'{}' is not a folder", folder.string()), "give the folder of a Hugging Face model");
  }
  if (is_file(folder / kSingleFile)) {
    add_file(folder / kSingleFile);
    for (size_t index = 0; index < files_[0].names().size(); ++index) add_tensor(0, index);
  } else if (is_file(folder / kIndexFile)) {
    open_shards(folder / kIndexFile);
  } else {
    throw no_weights(folder);
  }
}

void FolderTensors::add_file(const fs::path& path) {
  files_.emplace_back(path);
  paths_.push_back(path.string());
}

void FolderTensors::add_tensor(size_t file, size_t index) {
  const SafeTensors::Stored& stored = files_[file].stored(index);
  const std::optional<FloatType> type = float_type(stored.dtype);
  tensors_.push_back({.name = files_[file].names()[index],
                      .dims = stored.dims,
                      .type = std::string(stored.dtype),
                      .dtype = type ? std::optional(exact_dtype(*type)) : std::nullopt,
                      .readable = type.has_value(),
                      .file = paths_[file]});
  places_.push_back({file, index});
}

void FolderTensors::open_shards(const fs::path& index) {
  constexpr size_t kMostShards = 4096;
  const fs::path folder = index.parent_path();
  std::map<std::string, size_t> shards;
  for (const auto& [tensor, name] : read_shard_index(read_small_file(index, int64_t{1} << 28), index.string())) {
    const auto [place, is_new] = shards.emplace(name, files_.size());
    if (is_new) {
      if (shards.size() > kMostShards) {
        throw data_error(fmt::format("{}: more than {} files", index.string(), kMostShards), "use larger shards");
      }
      check_inside(folder, folder / name);
      add_file(folder / name);
    }
    const std::vector<std::string>& names = files_[place->second].names();
    const auto found = std::lower_bound(names.begin(), names.end(), tensor);
    if (found == names.end() || *found != tensor) {
      throw data_error(fmt::format("{}: tensor {} is missing, though {} lists it", (folder / name).string(),
                                   quote_for_message(tensor), index.filename().string()),
                       "fetch the model again");
    }
    add_tensor(place->second, static_cast<size_t>(found - names.begin()));
  }
}

void FolderTensors::read_rows(size_t index, int64_t begin, int64_t end, float* out) const {
  const Place& place = places_[index];
  const SafeTensors::Stored& stored = files_[place.file].stored(place.index);
  const FloatType type = *float_type(stored.dtype);
  const auto row_bytes = static_cast<size_t>(tensors_[index].cols()) * bytes_of(type);
  const std::span<const std::byte> bytes =
      stored.bytes.subspan(static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(end - begin) * row_bytes);
  widen(type, bytes, out);
  files_[place.file].check();
  files_[place.file].release(bytes);
}

HfConfig read_folder_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  return read_model_config(read_small_file(path, kMostConfigBytes), path.string());
}

void check_tokenizer(const HfConfig& config, int64_t tokenizer_size, std::string_view where) {
  if (tokenizer_size <= config.spec.vocab) return;
  throw data_error(fmt::format("{}: the tokenizer has {} ids, but the model has rows for {}", where, tokenizer_size,
                               config.spec.vocab),
                   "use the tokenizer that the model was trained with");
}

}  // namespace gradmill
