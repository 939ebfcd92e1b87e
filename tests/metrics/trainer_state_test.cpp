// SPDX-License-Identifier: Apache-2.0
#include "metrics/trainer_state_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "metrics/files.h"

namespace gradmill {
namespace {

using nlohmann::json;
using test::eval_at;
using test::read_file;
using test::step_at;
using test::TemporaryFolder;

constexpr TrainerStateOptions kOptions{.max_steps = 20,
                                       .num_train_epochs = 3,
                                       .train_batch_size = 8,
                                       .logging_steps = 2,
                                       .eval_steps = 4,
                                       .flops_per_token = 10};

TEST(TrainerState, SaysThatARunWasPruned) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trainer_state.json";
  TrainerStateWriter writer(path, kFreshRun, kOptions);
  writer.step(step_at(1));
  writer.finish({.status = RunStatus::pruned, .step = 1, .epoch = 0.1, .train_loss = 2, .seconds = 8});
  const json last = json::parse(read_file(path)).at("log_history").back();
  EXPECT_EQ(last.at("pruned"), true);
  EXPECT_EQ(last.at("train_loss"), 2.0);
}

TEST(TrainerState, WritesWhatTheTrainerOfTransformersWrites) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trainer_state.json";
  TrainerStateWriter writer(path, kFreshRun, kOptions);
  for (int64_t step = 1; step <= 4; ++step) writer.step(step_at(step));
  writer.eval(eval_at(4));
  writer.checkpoint(4, "checkpoints/step-4");
  writer.finish({.step = 4, .epoch = 0.5, .train_loss = 2, .seconds = 8, .samples_per_s = 4, .steps_per_s = 0.5});

  const std::string text = read_file(path);
  EXPECT_TRUE(text.starts_with("{\n  \"best_global_step\": 4,\n  \"best_metric\": 1.0,\n")) << text;
  const json state = json::parse(text);
  const std::set<std::string> keys = {"best_global_step",
                                      "best_metric",
                                      "best_model_checkpoint",
                                      "epoch",
                                      "eval_steps",
                                      "global_step",
                                      "is_hyper_param_search",
                                      "is_local_process_zero",
                                      "is_world_process_zero",
                                      "log_history",
                                      "logging_steps",
                                      "max_steps",
                                      "num_input_tokens_seen",
                                      "num_train_epochs",
                                      "save_steps",
                                      "stateful_callbacks",
                                      "total_flos",
                                      "train_batch_size",
                                      "trial_name",
                                      "trial_params"};
  std::set<std::string> found;
  for (const auto& [key, value] : state.items()) found.insert(key);
  EXPECT_EQ(found, keys);
  EXPECT_EQ(state.at("best_model_checkpoint"), "checkpoints/step-4");
  EXPECT_EQ(state.at("global_step"), 4);
  EXPECT_EQ(state.at("num_input_tokens_seen"), 256);
  EXPECT_EQ(state.at("total_flos"), 2560.0);
  EXPECT_EQ(state.at("save_steps"), nullptr);

  const json expected = json::parse(R"([
    {"epoch": 0.25, "grad_norm": 0.5, "learning_rate": 0.001, "loss": 2.0, "step": 2},
    {"epoch": 0.5, "grad_norm": 0.5, "learning_rate": 0.001, "loss": 1.0, "step": 4},
    {"epoch": 0.5, "eval_loss": 1.0, "eval_perplexity": 2.0, "eval_runtime": 0.5, "step": 4},
    {"epoch": 0.5, "step": 4, "total_flos": 2560.0, "train_loss": 2.0, "train_runtime": 8.0,
     "train_samples_per_second": 4.0, "train_steps_per_second": 0.5}])");
  EXPECT_EQ(state.at("log_history"), expected);
  EXPECT_EQ(folder.num_entries(), 1);  // no temporary file
}

TEST(TrainerState, ALossThatIsNotFiniteIsNull) {
  const TemporaryFolder folder;
  TrainerStateWriter writer(folder.path() / "state.json", kFreshRun, kOptions);
  StepMetrics step = step_at(2);
  step.loss = kUnknown;
  step.epoch = kUnknown;
  writer.step(step);
  writer.flush();
  const json state = json::parse(read_file(folder.path() / "state.json"));
  EXPECT_EQ(state.at("log_history").at(0).at("loss"), nullptr);
  TrainerStateWriter again(folder.path() / "state.json", 2, kOptions);  // reads its own nulls
  again.flush();
  EXPECT_EQ(json::parse(read_file(folder.path() / "state.json")), state);
}

TEST(TrainerState, TheBestOfAResumedRunIsTheBestUpToThere) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.json";
  {
    TrainerStateWriter writer(path, kFreshRun, kOptions);
    writer.eval(eval_at(4));
    writer.checkpoint(4, "step-4");
    writer.eval(eval_at(8));
    writer.checkpoint(4, "not the best any more");
    writer.checkpoint(8, "step-8");
    writer.eval(eval_at(12, false));
    writer.flush();
  }
  const auto state_at = [&](int64_t step) {
    TrainerStateWriter(path, step, kOptions).flush();
    return json::parse(read_file(path));
  };
  const json at_12 = state_at(12), at_8 = state_at(8), at_6 = state_at(6), at_2 = state_at(2);
  EXPECT_EQ(at_12.at("best_model_checkpoint"), "step-8");
  EXPECT_EQ(at_8.at("best_global_step"), 8);
  EXPECT_EQ(at_8.at("log_history").size(), 2u);
  EXPECT_EQ(at_6.at("best_global_step"), 4);
  EXPECT_EQ(at_6.at("best_metric"), 1.0);
  EXPECT_EQ(at_6.at("best_model_checkpoint"), nullptr);
  EXPECT_EQ(at_2.at("best_metric"), nullptr);
}

TEST(TrainerState, ResumesWithoutAFileAndRefusesADamagedOne) {
  const TemporaryFolder folder;
  TrainerStateWriter(folder.path() / "state.json", 5, kOptions).flush();
  for (const char* text : {"{", "[]", "{\"global_step\": 1}", ""}) {
    folder.write("state.json", text);
    test::expect_error([&] { TrainerStateWriter(folder.path() / "state.json", 5, kOptions); }, ExitCode::data,
                       {"state.json", "damaged", "move"});
  }
  TrainerStateWriter(folder.path() / "state.json", kFreshRun, kOptions).flush();
  EXPECT_EQ(json::parse(read_file(folder.path() / "state.json")).at("log_history"), json::array());
}

}  // namespace
}  // namespace gradmill
