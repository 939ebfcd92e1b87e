// SPDX-License-Identifier: Apache-2.0
// The messages for an invalid configuration: all errors at once, with location, allowed values and a guess.
#include <gtest/gtest.h>

#include <cstring>

#include "config/errors.h"
#include "config/suggest.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

void expect_parts(const std::string& line, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) EXPECT_NE(line.find(part), std::string::npos) << part << " not in: " << line;
}

std::vector<std::string> mistakes_in(const TemporaryFolder& folder, const std::string& text) {
  return mistakes_of({.files = {folder.write("run.yaml", text)}});
}

TEST(ConfigMistakes, FiveMistakesAreFiveLines) {
  const TemporaryFolder folder;
  const auto path = folder.write("run.yaml",
                                 "training:\n"
                                 "  step: 100\n"
                                 "  batch_size: many\n"
                                 "optimiser:\n"
                                 "  lr: 1\n"
                                 "  unseen: 1\n"
                                 "model:\n"
                                 "  dropout: 1.5\n");
  const auto lines = mistakes_of({.overrides = {"schedule.name=cosin"}, .files = {path}});
  ASSERT_EQ(lines.size(), 5u) << testing::PrintToString(lines);
  const std::string file = path.string();
  expect_parts(lines[0], {file + ":2: ", "unknown key 'training.step'", "keys of training: steps, epochs",
                          "did you mean 'training.steps'?"});
  expect_parts(lines[1], {file + ":3: ", "training.batch_size is 'many'", "a whole number between 1 and"});
  expect_parts(lines[2], {file + ":4: ", "unknown section 'optimiser'", "sections: data, augment, model",
                          "did you mean 'optimizer'?"});
  expect_parts(lines[3], {file + ":8: ", "model.dropout is '1.5'", "a number between 0 and 0.95"});
  expect_parts(lines[4], {"command line: ", "schedule.name is 'cosin'", "one of constant, linear, cosine, wsd",
                          "did you mean 'cosine'?"});
}

TEST(ConfigMistakes, WrongValueThatIsOverriddenIsStillReported) {
  const TemporaryFolder folder;
  const auto path = folder.write("run.yaml", "training: {steps: -1}\n");
  EXPECT_EQ(mistakes_of({.overrides = {"training.steps=5"}, .files = {path}}).size(), 1u);
}

TEST(ConfigMistakes, DataSettingsThatNothingWouldRead) {
  for (const char* setting : {"tokenizer=byte", "task=instruct", "column=body", "eos=none", "lines=true",
                              "packing=concatenated", "cache=c", "bad_records=skip", "validation_path=v"}) {
    const std::string key = std::string("data.") + std::string(setting, std::strchr(setting, '='));
    expect_parts(mistake_of({std::string("data.") + setting}), {key, "data.path is", "name the data with data.path"});
  }
  expect_parts(mistake_of({"data.path=x"}), {"data.tokenizer is", "data.tokenizer=byte"});
  const auto with_tokens = [](std::vector<std::string> more) {
    more.insert(more.end(), {"data.path=x", "data.tokenizer=byte"});
    return more;
  };
  EXPECT_TRUE(mistakes_of({.overrides = with_tokens({})}).empty());
  expect_parts(mistake_of(with_tokens({"data.dataset=shakespeare"})), {"set only one of them"});
  expect_parts(mistake_of(with_tokens({"data.max_chars=5"})), {"data.max_chars is 5"});
  expect_parts(mistake_of(with_tokens({"data.download=true"})), {"data.download is true"});
  expect_parts(mistake_of(with_tokens({"data.task=instruct", "data.column=a"})), {"have fixed names"});
  expect_parts(mistake_of(with_tokens({"data.task=instruct", "data.eos=none"})), {"data.eos is none"});
  expect_parts(mistake_of(with_tokens({"data.streaming=true"})),
               {"data.validation_path is", "name the validation data"});
  const std::vector<std::string> streamed = with_tokens({"data.streaming=true", "data.validation_path=v"});
  EXPECT_TRUE(mistakes_of({.overrides = streamed}).empty());
  for (const char* epochs : {"eval.every_epochs=1", "checkpoint.every_epochs=1"}) {
    std::vector<std::string> overrides = streamed;
    overrides.push_back(epochs);
    expect_parts(mistake_of(overrides), {"a stream has no epochs"});
  }
}

TEST(ConfigMistakes, AWordMayStandForANumber) {
  EXPECT_EQ(load_config({.overrides = {"data.num_workers=auto"}}).config.data.num_workers, DataConfig::kAutoWorkers);
  expect_parts(mistake_of({"data.num_workers=-1"}), {"auto or a whole number between 0 and 1024 (0: "});
  expect_parts(mistake_of({"data.num_workers=all"}), {"data.num_workers is 'all'"});
  RunConfig config;
  config.data.num_workers = DataConfig::kAutoWorkers;
  EXPECT_EQ(value_text(*fields_of(config).find("data.num_workers")), "auto");
}

TEST(ConfigMistakes, Types) {
  EXPECT_EQ(mistake_of({"training.steps=1.5"}),
            "command line: training.steps is '1.5'; it must be a whole number, 0 or more (0: count epochs instead)");
  for (const char* text : {"1e3", "0x10", " 5", "5 ", "+5", "", "five", "99999999999999999999"}) {
    expect_parts(mistake_of({std::string("training.batch_size=") + text}), {"a whole number"});
  }
  for (const char* text : {"nan", "inf", "1e999", "0,1", "1e", ""}) {
    expect_parts(mistake_of({std::string("optimizer.lr=") + text}), {"a number between 0 and 10"});
  }
  for (const char* text : {"1", "0", "tru", ""}) {
    expect_parts(mistake_of({std::string("model.tied=") + text}), {"true or false"});
  }
  for (const char* text : {"false", "no", "off", "False", "NO"}) {
    EXPECT_FALSE(load_config({.overrides = {std::string("model.tied=") + text}}).config.model.tied) << text;
  }
  for (const char* text : {"true", "yes", "on", "True"}) {
    EXPECT_TRUE(load_config({.overrides = {std::string("data.download=") + text}}).config.data.download) << text;
  }
  EXPECT_EQ(load_config({.overrides = {"optimizer.lr=1e-3"}}).config.optimizer.lr, 0.001);
  EXPECT_EQ(load_config({.overrides = {"optimizer.lr=1"}}).config.optimizer.lr, 1.0);
  EXPECT_EQ(load_config({.overrides = {"logging.progress=off"}}).config.logging.progress, "off");
  EXPECT_EQ(load_config({.overrides = {"data.dataset=a=b.c"}}).config.data.dataset, "a=b.c");
}

TEST(ConfigMistakes, Text) {
  expect_parts(mistake_of({"data.dataset="}), {"data.dataset is ''", "printable text"});
  expect_parts(mistake_of({"data.dataset=a\nb"}), {"data.dataset is 'a?b'"});
  expect_parts(mistake_of({"data.dataset=\xff"}), {"printable text"});
  expect_parts(mistake_of({"data.dataset=a\xc3"}), {"printable text"});
  EXPECT_EQ(load_config({.overrides = {"checkpoint.dir="}}).config.checkpoint.dir, "");
  EXPECT_EQ(load_config({.overrides = {"data.dataset=für"}}).config.data.dataset, "für");
}

TEST(ConfigMistakes, UnsetBesidesARange) {
  EXPECT_EQ(load_config({.overrides = {"training.spike_factor=0"}}).config.training.spike_factor, 0);
  EXPECT_EQ(load_config({.overrides = {"training.spike_factor=1.5"}}).config.training.spike_factor, 1.5);
  expect_parts(mistake_of({"training.spike_factor=0.5"}), {"between 1 and 1000000 (0: off)"});
  expect_parts(mistake_of({"training.batch_size=0"}), {"between 1 and"});
}

TEST(ConfigMistakes, YamlKinds) {
  const TemporaryFolder folder;
  const auto lines = mistakes_in(folder,
                                 "training:\n"
                                 "  steps: \"5\"\n"
                                 "  seed:\n"
                                 "  epochs: [1, 2]\n"
                                 "  batch_size: {a: 1}\n"
                                 "model: 5\n"
                                 "data: &d\n"
                                 "  dataset: ~\n"
                                 "eval: *d\n"
                                 "? [a, b]\n"
                                 ": 1\n"
                                 "lr: 0.1\n");
  ASSERT_EQ(lines.size(), 9u) << testing::PrintToString(lines);
  expect_parts(lines[0], {":2: training.steps is '5'", "a whole number"});
  expect_parts(lines[1], {":3: training.seed is empty"});
  expect_parts(lines[2], {":4: training.epochs is a list"});
  expect_parts(lines[3], {":5: training.batch_size is a mapping"});
  expect_parts(lines[4], {":6: section model is '5'", "style, layers"});
  expect_parts(lines[5], {":8: data.dataset is empty"});
  expect_parts(lines[6], {":9: section eval is a YAML alias"});
  expect_parts(lines[7], {":10: a key must be a single word"});
  expect_parts(lines[8], {":12: unknown section 'lr'", "did you mean 'optimizer.lr'?"});
}

TEST(ConfigMistakes, DuplicateKeys) {
  const TemporaryFolder folder;
  const auto lines = mistakes_in(folder, "model:\n  layers: 1\n  heads: 2\n  layers: 3\ndata:\nmodel:\n  heads: 4\n");
  ASSERT_EQ(lines.size(), 3u) << testing::PrintToString(lines);
  expect_parts(lines[0], {":4: duplicate key 'model.layers', already on line 2"});
  expect_parts(lines[1], {":6: duplicate key 'model', already on line 1"});
  expect_parts(lines[2], {":7: duplicate key 'model.heads', already on line 3"});
}

TEST(ConfigMistakes, SyntaxErrorsDoNotHideOthers) {
  const TemporaryFolder folder;
  const auto bad = folder.write("bad.yaml", "training:\n  step: 5\n  seed: 1\noptimizer:\n  lr: [1, 2\n");
  const auto other = folder.write("other.yaml", "model: {lairs: 3}\n");
  const auto lines = mistakes_of({.files = {bad, other}});
  ASSERT_EQ(lines.size(), 3u) << testing::PrintToString(lines);
  expect_parts(lines[0], {"bad.yaml:2: unknown key 'training.step'"});
  expect_parts(lines[1], {"bad.yaml:", "not valid YAML: "});
  expect_parts(lines[2], {"other.yaml:1: unknown key 'model.lairs'", "did you mean 'model.layers'?"});
  EXPECT_EQ(mistakes_in(folder, "data: [1, 2\n").size(), 1u);
  EXPECT_EQ(mistakes_in(folder, "data:\n\tdataset: x\n").size(), 1u);
  EXPECT_EQ(mistakes_in(folder, std::string(100000, '[')).size(), 1u);
  EXPECT_EQ(mistakes_in(folder, "just words\n").size(), 1u);
  EXPECT_EQ(mistakes_in(folder, "data:\n---\ndata:\n").size(), 1u);
}

TEST(ConfigMistakes, Files) {
  const TemporaryFolder folder;
  expect_parts(mistakes_of({.files = {folder.path() / "none.yaml"}}).at(0),
               {"none.yaml: cannot be read: No such file"});
  expect_parts(mistakes_of({.files = {folder.path()}}).at(0), {"cannot be read: Is a directory"});
  expect_parts(mistakes_of({.files = {"/dev/zero"}}).at(0), {"longer than a megabyte"});
  expect_parts(
      mistakes_of({.overrides = {"experiment=shakespeare_cpu"}, .config_dirs = {folder.path() / "none"}}).at(0),
      {"command line: cannot list the configuration folder", "none"});
}

TEST(ConfigMistakes, Names) {
  expect_parts(mistake_of({"trainning.steps=5"}), {"unknown section 'trainning'", "did you mean 'training'?"});
  expect_parts(mistake_of({"training.batch-size=5"}), {"did you mean 'training.batch_size'?"});
  expect_parts(mistake_of({"training.lr=5"}), {"unknown key 'training.lr'", "did you mean 'optimizer.lr'?"});
  expect_parts(mistake_of({"schedule.warmup=5"}), {"did you mean 'schedule.warmup_steps'?"});
  expect_parts(mistake_of({"model.style=qwen"}), {"one of gpt2, llama, qwen2, qwen3, bert; did you mean 'qwen2'?"});
  expect_parts(mistake_of({"machine.device=h10"}), {"one of auto, cpu, cuda, "});
  EXPECT_EQ(mistake_of({"model.zzzzzz=5"}).find("did you mean"), std::string::npos);
  expect_parts(mistake_of({"nonsense"}), {"'nonsense' is not SECTION.KEY=VALUE or GROUP=NAME"});
  expect_parts(mistake_of({"=5"}), {"is not SECTION.KEY=VALUE"});
}

TEST(ConfigMistakes, Groups) {
  const TemporaryFolder folder;
  folder.write("experiment/mine.yaml", "");
  folder.write("experiment/notes.txt", "");
  const auto lines = mistakes_of({.overrides = {"experiment=shakespear_cpu"}, .config_dirs = {folder.path()}});
  ASSERT_EQ(lines.size(), 1u);
  expect_parts(lines[0], {"command line: there is no experiment 'shakespear_cpu'; known: mine, ",
                          "shakespeare_cpu, shakespeare_gpu", "did you mean 'shakespeare_cpu'?"});
  expect_parts(mistake_of({"experiment=../experiment/shakespeare_cpu"}), {"there is no experiment"});
  expect_parts(mistake_of({"experiments=shakespeare_cpu"}),
               {"there is no group 'experiments'", "did you mean 'experiment'?"});
  expect_parts(mistake_of({"lr=0.1"}), {"there is no group 'lr'", "did you mean 'optimizer.lr'?"});
  expect_parts(mistake_of({"training=5"}), {"for a setting write training.KEY=VALUE"});
}

TEST(ConfigMistakes, RulesOverSeveralSettings) {
  EXPECT_EQ(mistake_of({"model.heads=5"}),
            "model.width is 128 (default), model.heads is 5 (command line); the width must be a multiple of the number "
            "of heads");
  expect_parts(mistake_of({"data.order=grouped"}), {"it needs data.task=classify or regress"});
  expect_parts(mistake_of({"eval.metric=mcc"}), {"eval.metric is mcc"});
  expect_parts(mistake_of({"model.style=bert"}), {"bert is an encoder"});
  expect_parts(mistake_of({"model.load_in=nf4"}), {"only frozen weights can be quantised"});
  expect_parts(mistake_of({"adapter.kind=lora"}), {"adapters need a pretrained model"});
  expect_parts(mistake_of({"model.kv_heads=3"}), {"the number of heads must be a multiple of kv_heads"});
  expect_parts(mistake_of({"model.bias=false", "model.style=llama"}), {"only model.style=gpt2 can do without biases"});
  expect_parts(mistake_of({"training.epochs=3"}),
               {"training.steps is 2000 (default), training.epochs is 3 (command line)"});
  expect_parts(mistake_of({"training.steps=0"}), {"training.steps is 0"});
  expect_parts(mistake_of({"optimizer.lr=1e-5"}), {"must not exceed the peak"});
  EXPECT_EQ(load_config({.overrides = {"optimizer.lr=1e-5", "schedule.name=constant"}}).config.optimizer.lr, 1e-5);
  EXPECT_EQ(load_config({.overrides = {"training.steps=0", "training.epochs=3"}}).config.training.epochs, 3);
  // One error, not two: the rule would check a value that was not accepted.
  expect_parts(mistake_of({"optimizer.min_lr=x", "optimizer.lr=1e-5"}), {"optimizer.min_lr is 'x'"});
}

TEST(ConfigMistakes, NamesOfOtherPrograms) {
  expect_parts(mistake_of({"training.learning_rate=1"}), {"unknown key", "in Gradmill it is optimizer.lr"});
  expect_parts(mistake_of({"learning_rate=1"}), {"in Gradmill it is optimizer.lr"});
  expect_parts(mistake_of({"model.n_layer=2"}), {"in Gradmill it is model.layers"});
  expect_parts(mistake_of({"adapter.target_modules=x"}), {"in Gradmill it is adapter.targets"});
  expect_parts(mistake_of({"training.bf16=true"}), {"in Gradmill it is machine.dtype"});
  expect_parts(mistake_of({"machine.device=gpu"}), {"did you mean 'cuda'?"});
  expect_parts(mistake_of({"machine.dtype=bfloat16"}), {"did you mean 'bf16'?"});
}

TEST(Suggest, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("steps", "setps"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(closest("Batch-Size", {"batch_size", "steps"}), "batch_size");
  EXPECT_EQ(closest("x", {"lr", "clip"}), std::nullopt);
  EXPECT_EQ(closest("", {"lr"}), std::nullopt);
  EXPECT_EQ(closest("gpu", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(closest("gpu", {"cpu", "tpu"}), "cpu");
}

}  // namespace
}  // namespace gradmill::test
