// SPDX-License-Identifier: Apache-2.0
// Classifiers and regressors: they learn, resume bit for bit, are scored by their metric, and predict for files.
#include "run/load_run_data.h"
#include "run/labelled_run_fixture.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "adapters/peft_folder.h"
#include "support/errors.h"
#include "files/file_io.h"
#include "run/export_model.h"
#include "run/labelled_data.h"
#include "run/model_folder.h"
#include "report/predictions.h"

namespace gradmill::test {
namespace {

TEST_F(LabelledRunTest, ClassifiersOfEveryStyleLearn) {
  for (const char* style : {"bert", "gpt2", "qwen3"}) {
    config_.model.style = style;
    const Run result = run(style);
    ASSERT_EQ(result.recorder.steps.size(), 60u) << style;
    EXPECT_NEAR(result.recorder.steps.front().loss, std::log(3.0), 0.3) << style;
    ASSERT_EQ(result.recorder.evals.size(), 4u) << style;
    EXPECT_GT(value(result.recorder.evals.back(), "accuracy"), 0.9) << style;
    EXPECT_GT(value(result.recorder.evals.back(), "auroc"), 0.95) << style;
    EXPECT_EQ(result.outcome.validation_values, result.recorder.evals.back().values);
    EXPECT_TRUE(result.outcome.sample.empty());
  }
}

TEST_F(LabelledRunTest, PairsAndNumbers) {
  config_.data.task = "regress";
  config_.data.path = path("numbers.jsonl");
  config_.data.validation_path.clear();
  config_.training.epochs = 8;
  const Run result = run("numbers");
  EXPECT_GT(value(result.recorder.evals.back(), "spearman"), 0.9);
  EXPECT_LT(value(result.recorder.evals.back(), "mse"), 0.05);
}

TEST_F(LabelledRunTest, ResumedRunsEqualUninterruptedOnesBitForBit) {
  config_.optimizer.ema_decay = 0.9;
  config_.data.class_weights = "balanced";
  config_.augment.deletion = 0.1;
  config_.data.num_workers = 2;
  config_.training.epochs = 2;
  const Run whole = run("whole");
  for (int64_t stop : {int64_t{1}, int64_t{17}}) {
    const std::string name = fmt::format("cut-{}", stop);
    const Run first = run(name, false, stop);
    EXPECT_EQ(first.outcome.status, RunStatus::interrupted);
    const Run second = run(name, true);
    std::vector<double> losses = first.recorder.losses();
    for (double loss : second.recorder.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.recorder.losses());
    expect_same_bits(second.weights, whole.weights, name);
    EXPECT_EQ(second.outcome.validation_values, whole.outcome.validation_values);
  }
}

// The split of an effective batch must not change the step: the loss is divided by the weights of the whole batch.
TEST_F(LabelledRunTest, MicroBatchesDoNotChangeTheRun) {
  config_.model.dropout = 0;
  config_.data.class_weights = "running:1, standing:2.5, burning:0.5";
  config_.training.epochs = 1;
  const Run whole = run("whole");
  config_.training.micro_batch_size = 5;
  const Run parts = run("parts");
  config_.training.micro_batch_size = 0;
  config_.training.micro_tokens = 40;
  const Run tokens = run("tokens");
  for (const Run* other : {&parts, &tokens}) {
    ASSERT_EQ(other->recorder.steps.size(), whole.recorder.steps.size());
    for (size_t i = 0; i < whole.recorder.steps.size(); ++i) {
      EXPECT_NEAR(other->recorder.steps[i].loss, whole.recorder.steps[i].loss, 2e-3) << i;
    }
  }
}

TEST_F(LabelledRunTest, UsesTheMemoryOfItsPlan) {
  config_.training.epochs = 1;
  Trainer trainer(config_, open_run(config_));
  Recorder recorder;
  trainer.attach({.metrics = &recorder, .config_yaml = ""});
  trainer.run();
  const MemoryPlan& plan = trainer.session().memory_plan();
  const Session::ArenaUse use = trainer.session().arena_use();
  EXPECT_EQ(use.persistent, plan.persistent.bytes);
  for (const Phase phase : {Phase::train, Phase::eval}) {
    const auto index = static_cast<size_t>(phase);
    EXPECT_LE(use.phases[index].saved, plan.phases[index].saved.bytes);
    EXPECT_LE(use.phases[index].scratch, plan.phases[index].scratch.bytes);
  }
}

TEST_F(LabelledRunTest, TheBestIsChosenByTheMetric) {
  config_.eval.metric = "mcc";
  config_.eval.patience = 2;
  config_.eval.min_delta = 10;  // no later evaluation counts as an improvement
  config_.training.epochs = 30;
  const Run result = run("early");
  EXPECT_EQ(result.outcome.step, 45);  // one epoch's steps, and those of two more epochs
  EXPECT_EQ(CheckpointStore(folder_.path() / "early").steps().front(), 15);
}

TEST_F(LabelledRunTest, AnswersFromARunAndFromItsExport) {
  config_.training.epochs = 2;
  run("trained");
  replace_config("trained");
  LoadedRun loaded(folder_.path() / "trained");
  const LabelledSet texts = read_unlabelled(path("validation.jsonl"), loaded.config());
  const TaskAnswers answers = loaded.answer_set(texts);
  ASSERT_EQ(answers.size(), 60u);
  const std::string lines = prediction_lines(answers, loaded.task(), std::nullopt, PredictionFormat::jsonl);
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_NEAR(first["probabilities"]["running"].get<double>() + first["probabilities"]["standing"].get<double>() +
                  first["probabilities"]["burning"].get<double>(),
              1, 1e-5);
  const std::string table = prediction_lines(answers, loaded.task(), std::nullopt, PredictionFormat::csv);
  EXPECT_TRUE(table.starts_with("label,burning,running,standing\n")) << table.substr(0, 60);

  const TaskScores scores = score(loaded.answer_validation(), loaded.task());
  EXPECT_NE(describe_scores(scores, loaded.task()).find("burning"), std::string::npos);

  export_model_to({.from = folder_.path() / "trained", .to = folder_.path() / "exported"});
  const auto config = nlohmann::json::parse(read_bytes(folder_.path() / "exported" / "config.json", kWholeFile));
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["id2label"]["0"], "burning");
  LoadedRun exported(folder_.path() / "exported");
  EXPECT_EQ(exported.task().labels, loaded.task().labels);
  expect_near_logits(exported.answer_set(texts).logits, answers.logits);
}

// Starts from a model folder: uses its weights, its class names and its tokenizer.
TEST_F(LabelledRunTest, GoesOnFromAFolder) {
  config_.training.epochs = 3;
  const Run before = run("base");
  replace_config("base");
  export_model_to({.from = folder_.path() / "base", .to = folder_.path() / "folder"});
  RunConfig start = config_;
  config_.model = ModelConfig();
  config_.model.path = path("folder");
  config_.model.context = start.model.context;
  config_.data.tokenizer.clear();
  config_.training.epochs = 1;
  config_.optimizer.lr = 0;
  const Run after = run("tuned");
  EXPECT_EQ(after.outcome.validation_values, before.outcome.validation_values);
}

// Adapters and a head on a frozen base, which may be quantised: they learn, resume bit for bit, and can be merged.
TEST_F(LabelledRunTest, AdaptersBesideAFrozenBase) {
  config_.training.epochs = 1;
  const int64_t context = config_.model.context;
  run("base");
  replace_config("base");
  export_model_to({.from = folder_.path() / "base", .to = folder_.path() / "folder"});
  const std::string base_bytes = read_bytes(folder_.path() / "folder" / "model.safetensors", kWholeFile);
  config_.model = ModelConfig();
  config_.model.path = path("folder");
  config_.model.context = context;
  config_.data.tokenizer.clear();
  config_.optimizer.lr = 5e-3;
  config_.training.epochs = 6;
  struct Case {
    const char *name, *kind, *load_in;
  };
  for (const Case& one : {Case{"lora", "lora", "bf16"}, Case{"dora", "dora", "bf16"}, Case{"nf4", "lora", "nf4"}}) {
    SCOPED_TRACE(one.name);
    const std::string name = one.name;
    config_.adapter = AdapterTrainingConfig();
    config_.adapter.kind = one.kind;
    config_.adapter.rank = 4;
    config_.adapter.dropout = config_.adapter.kind == "dora" ? 0 : 0.05;
    config_.model.load_in = one.load_in;
    const Run whole = run(name);
    EXPECT_GT(value(whole.recorder.evals.back(), "accuracy"), 0.5);  // chance is a third
    const Run first = run(name + "-cut", false, 20);
    const Run second = run(name + "-cut", true);
    expect_same_bits(second.weights, whole.weights, name);
    EXPECT_EQ(second.outcome.validation_values, whole.outcome.validation_values);

    const std::filesystem::path checkpoint = CheckpointStore(folder_.path() / name).newest()->folder();
    EXPECT_TRUE(std::filesystem::exists(checkpoint / "adapter_config.json"));
    EXPECT_FALSE(std::filesystem::exists(checkpoint / "model.safetensors"));
    replace_config(name);
    LoadedRun loaded(checkpoint);
    const LabelledSet texts = read_unlabelled(path("validation.jsonl"), loaded.config());
    const TaskAnswers answers = loaded.answer_set(texts);
    export_model_to({.from = checkpoint, .to = folder_.path() / (name + "-peft"), .format = "peft"});
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / (name + "-peft") / "adapter_model.safetensors"));
    export_model_to({.from = checkpoint, .to = folder_.path() / (name + "-merged")});
    LoadedRun merged(folder_.path() / (name + "-merged"));
    // Merging uses the base from its files, not the quantised one.
    if (name == "nf4") continue;
    expect_near_logits(merged.answer_set(texts).logits, answers.logits);

    // The adapters' folder alone, with the base that it names: used, merged, trained further.
    const std::filesystem::path peft = folder_.path() / (name + "-peft");
    LoadedRun kept(peft);
    EXPECT_EQ(kept.task().labels, loaded.task().labels);
    expect_near_logits(kept.answer_set(texts).logits, answers.logits);
    export_model_to({.from = peft, .to = folder_.path() / (name + "-kept")});
    EXPECT_EQ(read_bytes(folder_.path() / (name + "-kept") / "model.safetensors", kWholeFile),
              read_bytes(folder_.path() / (name + "-merged") / "model.safetensors", kWholeFile));
    config_.adapter = AdapterTrainingConfig();
    config_.adapter.path = peft.string();
    const Run further = run(name + "-further");
    EXPECT_LT(further.recorder.steps.front().loss, whole.recorder.steps.front().loss);
    run(name + "-further-cut", false, 20);
    expect_same_bits(run(name + "-further-cut", true).weights, further.weights, name + " further");
  }
  config_.adapter.path = path("lora-peft");
  const auto config_for = [&](const char* task) {
    folder_.write("lora-peft/adapter_config.json",
                  fmt::format(R"({{"peft_type": "LORA", "task_type": "{}", "base_model_name_or_path": "no/such", "r": 4,
                                  "target_modules": ["query"]}})",
                              task));
  };
  AdapterConfig dropped = read_adapter_config(folder_.path() / "dora-peft");
  dropped.dropout = 0.1;
  folder_.write("dora-peft/adapter_config.json", adapter_config_json(dropped, false));
  EXPECT_NO_THROW(LoadedRun(folder_.path() / "dora-peft"));
  config_.adapter.path = path("dora-peft");
  expect_error([&] { run("dropped"); }, ExitCode::usage, {"DoRA with adapter dropout"});
  config_.adapter.path = path("lora-peft");
  config_for("CAUSAL_LM");
  expect_error([&] { run("other"); }, ExitCode::usage, {"are for CAUSAL_LM"});
  config_for("SEQ_CLS");
  expect_error([&] { LoadedRun(folder_.path() / "lora-peft"); }, ExitCode::data,
               {"no/such", "base_model_name_or_path"});
  EXPECT_EQ(read_bytes(folder_.path() / "folder" / "model.safetensors", kWholeFile), base_bytes);
  // Another base than the one they were trained with.
  folder_.write("folder/model.safetensors", base_bytes + " ");
  EXPECT_THROW(LoadedRun(folder_.path() / "lora"), Error);
}

TEST_F(LabelledRunTest, AThresholdIsTunedAndKept) {
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    lines += fmt::format("{{\"text\": \"{}\", \"label\": {}}}\n", sentence(i, 0), i % 10 == 0 ? 1 : 0);
  }
  folder_.write("skewed.jsonl", lines);
  config_.data.path = path("skewed.jsonl");
  config_.data.validation_path.clear();
  config_.data.validation_fraction = 0.3;
  config_.eval.threshold = "f1";
  config_.training.epochs = 1;
  run("skewed");
  const CheckpointStore store(folder_.path() / "skewed");
  EXPECT_TRUE(state_from_json(store.newest()->state_json()).threshold.has_value());
  // Only the first evaluation improves this much: the best checkpoint, which is used later, has its own threshold.
  config_.eval.min_delta = 10;
  config_.eval.every_steps = 2;
  for (const int64_t patience : {0, 1}) {
    config_.eval.patience = patience;
    const std::string name = "best" + std::to_string(patience);
    EXPECT_EQ(run(name).outcome.status, RunStatus::completed);
    const TrainState best = state_from_json(open_checkpoint(folder_.path() / name).state_json());
    EXPECT_EQ(best.step, 2);
    EXPECT_TRUE(best.threshold.has_value()) << name;
  }
}

TEST_F(LabelledRunTest, RefusesWhatDoesNotFit) {
  const auto fails_with = [&](const std::string& part) {
    try {
      load_run_data(config_);
      ADD_FAILURE() << "no error about " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  config_.data.class_weights = "running:x";
  fails_with("NAME:WEIGHT");
  config_.data.class_weights = "running:1";
  fails_with("burning");
  config_.data.class_weights.clear();
  config_.data.labels = "running,standing";
  fails_with("burning");
  config_.data.labels.clear();
  config_.data.task = "regress";
  fails_with("number");
  config_.data.task = "classify";
  config_.augment.span_mask = 0.1;
  fails_with("[MASK]");
}

}  // namespace
}  // namespace gradmill::test
