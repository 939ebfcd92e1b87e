// SPDX-License-Identifier: Apache-2.0
// A run folder for the tests of checkpoints, and small checkpoints whose contents are derived from a number.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "core/error.h"
#include "files/faulty_file_ops.h"

namespace gradmill::test {

// The contents of one small checkpoint. Two with different seeds differ in every file.
struct SmallState {
  explicit SmallState(int number) : seed(number), weight(12), half(3), count(1) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(seed) + 0.25f * static_cast<float>(i);
    for (Bf16& value : half) value = Bf16(static_cast<float>(-seed));
    count[0] = seed;
  }

  CheckpointWrite write(int64_t step) {
    CheckpointWrite result{step};
    result.files = {
        {"model.safetensors",
         {{"model.weight", {weight.data(), DType::fp32, {3, 4}}}, {"model.half", {half.data(), DType::bf16, {3}}}}},
        {"state.safetensors", {{"count", {count.data(), DType::int32, {1}}}}}};
    result.texts = {{"config.json", "{\"seed\":" + std::to_string(seed) + "}\n"}};
    result.state_json = "{\"step\":" + std::to_string(step) + ",\"seed\":" + std::to_string(seed) + "}";
    return result;
  }

  bool matches(const Checkpoint& checkpoint) const {
    const TensorView w = checkpoint.tensor("model.safetensors", "model.weight");
    const TensorView h = checkpoint.tensor("model.safetensors", "model.half");
    const std::string step = std::to_string(checkpoint.step()), number = std::to_string(seed);
    return w.shape == Shape{3, 4} && std::equal(weight.begin(), weight.end(), w.ptr<float>()) &&
           std::equal(half.begin(), half.end(), h.ptr<Bf16>(), [](Bf16 a, Bf16 b) { return a.bits == b.bits; }) &&
           *checkpoint.tensor("state.safetensors", "count").ptr<int32_t>() == seed &&
           checkpoint.text("config.json") == "{\"seed\":" + number + "}\n" &&
           checkpoint.state_json() == "{\"seed\":" + number + ",\"step\":" + step + "}";
  }

  int seed;
  std::vector<float> weight;
  std::vector<Bf16> half;
  std::vector<int32_t> count;
};

class StoreTest : public testing::Test {
 protected:
  StoreTest() : run_(folder_of_process(::getpid())) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }
  ~StoreTest() override { std::filesystem::remove_all(run_); }

  // In a memory file system if possible: these tests call fsync thousands of times.
  static std::filesystem::path folder_of_process(pid_t process) {
    const std::filesystem::path base =
        std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    return base / ("gradmill-store-test-" + std::to_string(process));
  }

  std::filesystem::path checkpoints() const { return run_ / "checkpoints"; }
  std::filesystem::path step_folder(int64_t step) const { return checkpoints() / fmt::format("step-{:08}", step); }

  // All entries of checkpoints/, including hidden ones.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void overwrite(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Writes a self-consistent manifest with any text.
  void write_manifest(int64_t step, const std::string& text) const {
    overwrite(step_folder(step) / kManifestName, text);
    overwrite(step_folder(step) / kManifestSumName, manifest_sum(text));
  }

  std::filesystem::path run_;
};

// Returns the message of the Error that `action` throws.
template <class Action>
std::string message_of(Action&& action, ExitCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace gradmill::test
