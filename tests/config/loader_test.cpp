// SPDX-License-Identifier: Apache-2.0
// Layers of configuration: which value wins, and the reported origin of each value.
#include "config/loader.h"

#include <gtest/gtest.h>

#include "config/embedded_configs.h"
#include "config/errors.h"
#include "config/groups.h"
#include "config/render.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

TEST(ConfigLoader, Defaults) {
  const LoadedConfig loaded = load_config({});
  EXPECT_EQ(loaded.config.data.dataset, "self");
  EXPECT_EQ(loaded.config.training.steps, 2000);
  EXPECT_EQ(loaded.config.optimizer.beta2, 0.99);
  EXPECT_TRUE(loaded.config.model.tied);
  EXPECT_TRUE(diff(loaded.config, RunConfig{}).empty());
  EXPECT_EQ(loaded.origins.size(), 109u);
  for (const auto& [key, origin] : loaded.origins) EXPECT_EQ(origin, "default") << key;
}

// The list contains every member of every section exactly once: its values fill the structs up to padding.
TEST(ConfigLoader, ListsEveryMember) {
  RunConfig config;
  const FieldList list = fields_of(config);
  std::map<const char*, size_t> bytes;
  for (const Field& field : list.fields()) {
    std::visit(
        [&](auto* value) { EXPECT_TRUE(bytes.emplace(reinterpret_cast<const char*>(value), sizeof *value).second); },
        field.value);
  }
  const char* reached = reinterpret_cast<const char*>(&config);
  for (const auto& [begin, size] : bytes) {
    EXPECT_LT(begin - reached, 8) << "a member before offset " << begin - reinterpret_cast<const char*>(&config)
                                  << " is not listed";
    reached = begin + size;
  }
  EXPECT_LT(reinterpret_cast<const char*>(&config + 1) - reached, 8);
}

TEST(ConfigLoader, EveryDefaultIsAllowed) {
  RunConfig config;
  const FieldList list = fields_of(config);
  for (const Field& field : list.fields()) {
    EXPECT_EQ(set_value(field, value_text(field)), "");
    EXPECT_FALSE(field.help.empty()) << field.name();
    EXPECT_EQ(field.help.find('\n'), std::string::npos) << field.name();
  }
}

TEST(ConfigLoader, ReadsYaml) {
  const TemporaryFolder folder;
  const auto path = folder.write("run.yaml",
                                 "# a comment\n"
                                 "data: {dataset: \"my text.txt\", download: yes}\n"
                                 "training:\n"
                                 "  steps: 10\n"
                                 "optimizer:\n"
                                 "  lr: 3e-4\n"
                                 "logging:\n"
                                 "eval:\n"
                                 "  every_minutes: 2.5\n");
  const LoadedConfig loaded = load_config({.files = {path}});
  EXPECT_EQ(loaded.config.data.dataset, "my text.txt");
  EXPECT_TRUE(loaded.config.data.download);
  EXPECT_EQ(loaded.config.training.steps, 10);
  EXPECT_EQ(loaded.config.optimizer.lr, 3e-4);
  EXPECT_EQ(loaded.config.eval.every_minutes, 2.5);
  EXPECT_EQ(loaded.origins.at("data.download"), path.string() + ":2");
  EXPECT_EQ(loaded.origins.at("training.steps"), path.string() + ":4");
  EXPECT_EQ(loaded.origins.at("training.epochs"), "default");
}

TEST(ConfigLoader, AnEmptyFileIsTheDefault) {
  const TemporaryFolder folder;
  for (const char* text : {"", "# only a comment\n", "---\n", "data:\n"}) {
    const LoadedConfig loaded = load_config({.files = {folder.write("run.yaml", text)}});
    EXPECT_TRUE(diff(loaded.config, RunConfig{}).empty()) << text;
  }
}

TEST(ConfigLoader, LaterLayersWin) {
  const TemporaryFolder folder;
  folder.write("experiment/small.yaml", "training: {steps: 1, batch_size: 2, seed: 3}\nmodel: {layers: 9}\n");
  folder.write("model/wide.yaml", "model:\n  layers: 5\n  width: 256\n");
  const auto first = folder.write("first.yaml", "training: {batch_size: 20, seed: 30}\n");
  const auto second = folder.write("second.yaml", "training: {seed: 300}\n");
  // The order of files and overrides counts, not the position of a group between the overrides.
  const LoadedConfig loaded = load_config(
      {.overrides = {"model.width=512", "experiment=small", "training.seed=4", "model=wide", "training.seed=5"},
       .files = {first, second},
       .config_dirs = {folder.path()}});
  EXPECT_EQ(loaded.config.training.steps, 1);
  EXPECT_EQ(loaded.config.training.batch_size, 20);
  EXPECT_EQ(loaded.config.training.seed, 5);
  EXPECT_EQ(loaded.config.model.layers, 5);
  EXPECT_EQ(loaded.config.model.width, 512);
  const std::string dir = folder.path().string();
  EXPECT_EQ(loaded.origins.at("training.steps"), dir + "/experiment/small.yaml:1");
  EXPECT_EQ(loaded.origins.at("training.batch_size"), dir + "/first.yaml:1");
  EXPECT_EQ(loaded.origins.at("training.seed"), "command line");
  EXPECT_EQ(loaded.origins.at("model.layers"), dir + "/model/wide.yaml:2");
  EXPECT_EQ(loaded.origins.at("model.width"), "command line");
  EXPECT_EQ(loaded.origins.at("model.heads"), "default");
  const auto kept = load_config({.overrides = {"training.seed=1"}, .files = {second, first}});
  EXPECT_EQ(kept.config.training.seed, 1);
  EXPECT_EQ(kept.config.training.batch_size, 20);
}

TEST(ConfigLoader, OfOneGroupTheLastCounts) {
  const TemporaryFolder folder;
  folder.write("experiment/a.yaml", "training: {seed: 1}\n");
  folder.write("experiment/b.yaml", "model: {layers: 2}\n");
  const LoadedConfig loaded =
      load_config({.overrides = {"experiment=a", "experiment=b"}, .config_dirs = {folder.path()}});
  EXPECT_EQ(loaded.config.training.seed, 1337);
  EXPECT_EQ(loaded.config.model.layers, 2);
}

TEST(ConfigLoader, SearchOrder) {
  const TemporaryFolder given, environment, working;
  const ScopedEnv configs("GRADMILL_CONFIGS", environment.path().string());
  const auto old_folder = std::filesystem::current_path();
  std::filesystem::current_path(working.path());
  const auto load = [&] {
    return load_config({.overrides = {"experiment=shakespeare_cpu"}, .config_dirs = {given.path()}});
  };
  const auto origin = [&] { return load().origins.at("training.steps"); };
  const std::string text = "training:\n  steps: 7\n";
  EXPECT_EQ(origin().find("embedded experiment/shakespeare_cpu.yaml:"), 0u) << origin();
  working.write("configs/experiment/shakespeare_cpu.yaml", text);
  EXPECT_EQ(origin(), "configs/experiment/shakespeare_cpu.yaml:2");
  environment.write("experiment/shakespeare_cpu.yaml", text);
  EXPECT_EQ(origin(), environment.path().string() + "/experiment/shakespeare_cpu.yaml:2");
  given.write("experiment/shakespeare_cpu.yaml", text);
  EXPECT_EQ(origin(), given.path().string() + "/experiment/shakespeare_cpu.yaml:2");
  std::filesystem::current_path(old_folder);
}

// A task and adapters set their defaults without naming their group. Explicit settings win.
TEST(ConfigLoader, TasksBringTheirDefaults) {
  const std::vector<std::string> labelled = {"data.task=classify", "data.path=x.tsv", "model.path=folder"};
  const LoadedConfig task = load_config({.overrides = labelled});
  EXPECT_EQ(task.config.optimizer.lr, 2e-5);
  EXPECT_EQ(task.config.optimizer.weight_decay, 0.01);
  EXPECT_EQ(task.config.training.epochs, 3);
  EXPECT_NE(task.origins.at("optimizer.lr").find("task/classify.yaml"), std::string::npos);
  std::vector<std::string> overrides = labelled;
  overrides.insert(overrides.end(), {"adapter.kind=lora", "training.epochs=1"});
  const LoadedConfig adapted = load_config({.overrides = overrides});
  EXPECT_EQ(adapted.config.optimizer.lr, 2e-4);
  EXPECT_EQ(adapted.config.schedule.warmup_steps, 100);
  EXPECT_EQ(adapted.config.training.epochs, 1);
  EXPECT_EQ(adapted.config.model.context, 256);
  overrides.push_back("optimizer.lr=1e-5");
  EXPECT_EQ(load_config({.overrides = overrides}).config.optimizer.lr, 1e-5);
}

// The folder defines its adapters; the training defaults for adapters still apply.
TEST(ConfigLoader, AFolderOfAdaptersNeedsNoKind) {
  std::vector<std::string> overrides = {"model.path=folder", "data.path=x", "adapter.path=peft"};
  const LoadedConfig loaded = load_config({.overrides = overrides});
  EXPECT_EQ(loaded.config.adapter.kind, "none");
  EXPECT_EQ(loaded.config.optimizer.lr, 2e-4);
  EXPECT_EQ(loaded.config.optimizer.weight_decay, 0);
  overrides.push_back("optimizer.lr=1e-5");
  EXPECT_EQ(load_config({.overrides = overrides}).config.optimizer.lr, 1e-5);
}

TEST(ConfigLoader, EmbeddedExperimentsLoad) {
  const TemporaryFolder empty;
  const auto old_folder = std::filesystem::current_path();
  std::filesystem::current_path(empty.path());
  ASSERT_FALSE(embedded_configs().empty());
  for (const EmbeddedConfig& config : embedded_configs()) {
    const std::filesystem::path path = config.path;
    std::vector<std::string> overrides = {path.parent_path().string() + "=" + path.stem().string()};
    // Adapters need a base model, tasks need data.
    if (path.parent_path() != "experiment") overrides.insert(overrides.end(), {"model.path=folder", "data.path=x.tsv"});
    const LoadedConfig loaded = load_config({.overrides = overrides});
    EXPECT_FALSE(diff(loaded.config, RunConfig{}).empty()) << config.path;
  }
  const RunConfig gpu = load_config({.overrides = {"experiment=shakespeare_gpu"}}).config;
  EXPECT_EQ(gpu.data.dataset, "shakespeare");
  EXPECT_EQ(gpu.model.layers, 6);
  EXPECT_EQ(gpu.model.width, 384);
  EXPECT_EQ(gpu.model.dropout, 0.2);
  EXPECT_FALSE(gpu.model.bias);
  EXPECT_EQ(gpu.training.steps, 5000);
  EXPECT_EQ(gpu.training.batch_size, 64);
  const RunConfig cpu = load_config({.overrides = {"experiment=shakespeare_cpu"}}).config;
  EXPECT_EQ(cpu.model.context, 64);
  EXPECT_EQ(cpu.training.steps, 2000);
  EXPECT_EQ(cpu.optimizer.min_lr, 1e-4);
  std::filesystem::current_path(old_folder);
}

}  // namespace
}  // namespace gradmill::test
