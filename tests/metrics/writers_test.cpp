// SPDX-License-Identifier: Apache-2.0
// The metrics files: their contents, what remains after a resume, and what happens if the disk fails.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "metrics/csv_writer.h"
#include "metrics/files.h"
#include "metrics/jsonl_writer.h"
#include "metrics/run_metrics.h"
#include "metrics/run_reader.h"
#include "metrics/tensorboard_writer.h"

namespace gradmill {
namespace {

using nlohmann::json;
using test::eval_at;
using test::read_file;
using test::read_lines;
using test::step_at;
using test::TemporaryFolder;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double no_time() { return 0; }

TEST(JsonlWriter, OneObjectALine) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "run" / "metrics.jsonl";
  {
    JsonlWriter writer(path, kFreshRun);
    writer.step(step_at(1));
    writer.eval(eval_at(1));
    writer.text(1, "sample", "a \"quote\"\nand \xff");
  }
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            R"({"kind":"train","step":1,"epoch":0.125,"loss":4,"lr":0.001,"grad_norm":0.5,"tokens_per_s":1000,)"
            R"("samples_per_s":15.625,"mfu":0.25,"tokens_seen":64,"step_ms":64,"memory_bytes":3145728,)"
            R"("loader_stall":0.125,"finite":true})");
  EXPECT_EQ(lines[1], R"({"kind":"eval","step":1,"epoch":0.125,"loss":2.5,"perplexity":2,"seconds":0.5,"best":true,)"
                      R"("finite":true})");
  EXPECT_EQ(json::parse(lines[2]).at("text"), "a \"quote\"\nand \xef\xbf\xbd");
}

TEST(JsonlWriter, NeverMakesANumberUp) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    JsonlWriter writer(path, kFreshRun);
    for (const double bad : {kUnknown, kInfinity, -kInfinity}) {
      StepMetrics step = step_at(1);
      step.loss = bad;
      writer.step(step);
      EvalMetrics eval = eval_at(1);
      eval.loss = bad;
      writer.eval(eval);
    }
    StepMetrics skipped = step_at(2);
    skipped.finite = false;
    writer.step(skipped);
    writer.step({.step = 3, .loss = 1, .grad_norm = 1});
  }
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 8u);
  for (size_t i = 0; i < 6; ++i) {
    const json object = json::parse(lines[i]);
    EXPECT_TRUE(object.at("loss").is_null()) << lines[i];
    EXPECT_EQ(object.at("finite"), false) << lines[i];
  }
  EXPECT_EQ(json::parse(lines[6]).at("finite"), false);
  EXPECT_EQ(json::parse(lines[6]).at("loss"), 2.0);
  const json unknown = json::parse(lines[7]);
  EXPECT_EQ(unknown.at("finite"), true);
  for (const char* key : {"epoch", "lr", "tokens_per_s", "samples_per_s", "mfu", "memory_bytes", "loader_stall"}) {
    EXPECT_TRUE(unknown.at(key).is_null()) << key;
  }
}

TEST(JsonlWriter, NumbersComeBackExactly) {
  const TemporaryFolder folder;
  StepMetrics step = step_at(3);
  step.loss = 0.1 + 0.2;
  step.lr = 6e-4 / 7;
  step.tokens_seen = uint64_t{1} << 53;
  JsonlWriter writer(folder.path() / "metrics.jsonl", kFreshRun);
  writer.step(step);
  writer.flush();
  const RunRecord record = read_metrics(folder.path() / "metrics.jsonl");
  ASSERT_EQ(record.steps.size(), 1u);
  EXPECT_EQ(record.steps[0].loss, step.loss);
  EXPECT_EQ(record.steps[0].lr, step.lr);
  EXPECT_EQ(record.steps[0].tokens_seen, step.tokens_seen);
  EXPECT_EQ(record.steps[0].memory_bytes, step.memory_bytes);
}

TEST(JsonlWriter, TellsOfAGpuWhatIsKnown) {
  const TemporaryFolder folder;
  StepMetrics step = step_at(1);
  step.gpu = {.utilisation = 0.5, .watts = 650, .memory_bytes = 1024};
  JsonlWriter writer(folder.path() / "metrics.jsonl", kFreshRun);
  writer.step(step);
  writer.flush();
  const std::string line = read_lines(folder.path() / "metrics.jsonl").front();
  EXPECT_NE(line.find(R"("gpu_utilisation":0.5,"gpu_watts":650,"gpu_memory_bytes":1024,"finite":true})"),
            std::string::npos)
      << line;
  const GpuMetrics gpu = read_metrics(folder.path() / "metrics.jsonl").steps.at(0).gpu;
  EXPECT_EQ(gpu.watts, 650);
  EXPECT_EQ(gpu.memory_bytes, 1024u);
  EXPECT_TRUE(std::isnan(gpu.celsius));
}

TEST(CsvWriter, OneTable) {
  const TemporaryFolder folder;
  {
    CsvWriter writer(folder.path() / "metrics.csv", kFreshRun);
    writer.step(step_at(1));
    StepMetrics bad = step_at(2);
    bad.loss = kUnknown;
    bad.memory_bytes = 0;
    bad.gpu = {.utilisation = 0.5, .watts = 650, .memory_bytes = 1024};
    writer.step(bad);
    writer.eval(eval_at(2, false));
  }
  const std::vector<std::string> expected = {
      "step,epoch,loss,learning_rate,grad_norm,tokens_per_s,samples_per_s,mfu,tokens_seen,step_ms,memory_bytes,"
      "loader_stall,finite,eval_loss,eval_perplexity,eval_seconds,best,gpu_utilisation,gpu_watts,gpu_celsius,"
      "gpu_memory_bytes",
      "1,0.125,4,0.001,0.5,1000,15.625,0.25,64,64,3145728,0.125,true,,,,,,,,",
      "2,0.25,,0.001,0.5,1000,15.625,0.25,128,64,,0.125,false,,,,,0.5,650,,1024",
      "2,0.25,,,,,,,,,,,true," + fmt::format("{}", 5.0 / 3) + ",2,0.5,false,,,,",
  };
  EXPECT_EQ(read_lines(folder.path() / "metrics.csv"), expected);
}

EvalMetrics labelled_at(int64_t step) {
  EvalMetrics metrics = eval_at(step);
  metrics.perplexity = kUnknown;
  metrics.values = {{"accuracy", 0.75}, {"auroc", kUnknown}, {"mcc", 0.5}};
  return metrics;
}

TEST(CsvWriter, TheTasksValuesAreTheLastColumns) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.csv";
  {
    CsvWriter writer(path, kFreshRun, {"accuracy", "auroc", "mcc"});
    writer.step(step_at(1));
    writer.eval(labelled_at(1));
    writer.eval(eval_at(2));  // of a task without such a metric
  }
  const std::vector<std::string> lines = read_lines(path);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[0].ends_with(",gpu_memory_bytes,eval_accuracy,eval_auroc,eval_mcc")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with(",true,,,,,,,,,,,")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with(",true,2.5,,0.5,true,,,,,0.75,,0.5")) << lines[2];
  EXPECT_TRUE(lines[3].ends_with(",2,0.5,true,,,,,,,")) << lines[3];
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), 23) << line;
}

TEST(Resume, TheTasksColumnsStayAsTheyWereBegun) {
  const TemporaryFolder folder;
  const std::vector<std::string> values = {"accuracy", "mcc"};
  const auto begin = [](const std::filesystem::path& path, const std::vector<std::string>& names) {
    CsvWriter writer(path, kFreshRun, names);
    for (int64_t step = 1; step <= 3; ++step) writer.eval(labelled_at(step));
  };
  const auto resume = [&](const std::filesystem::path& path) {
    CsvWriter writer(path, 2, values);
    writer.eval(labelled_at(3));
  };
  const auto with = folder.path() / "with.csv", without = folder.path() / "without.csv";
  begin(with, values);
  begin(without, {});
  const std::string whole_with = read_file(with), whole_without = read_file(without);
  resume(with);
  resume(without);
  EXPECT_EQ(read_file(with), whole_with);
  EXPECT_EQ(read_file(without), whole_without);
  begin(with, {"pearson"});
  test::expect_error([&] { resume(with); }, ExitCode::data, {"with.csv", "columns", "move"});
}

// Reports steps `first` to `last`, with an evaluation every 4 steps.
void train(MetricsSink& sink, int64_t first, int64_t last, double loss_offset = 0) {
  for (int64_t step = first; step <= last; ++step) {
    sink.step(step_at(step, loss_offset));
    if (step % 4 == 0) sink.eval(eval_at(step));
  }
}

template <class Writer>
std::unique_ptr<MetricsSink> open(const std::filesystem::path& path, int64_t resume_step) {
  return std::make_unique<Writer>(path, resume_step);
}

std::unique_ptr<MetricsSink> open_state(const std::filesystem::path& path, int64_t resume_step) {
  const TrainerStateOptions options{.max_steps = 20, .logging_steps = 2};
  return std::make_unique<TrainerStateWriter>(path, resume_step, options);
}

TEST(Resume, FilesEqualAnUninterruptedRunsWhereverItStops) {
  const std::pair<const char*, decltype(&open_state)> writers[] = {
      {"metrics.jsonl", open<JsonlWriter>}, {"metrics.csv", open<CsvWriter>}, {"trainer_state.json", open_state}};
  for (const auto& [name, open_writer] : writers) {
    const TemporaryFolder folder;
    const auto whole = open_writer(folder.path() / name, kFreshRun);
    train(*whole, 1, 20);
    whole->flush();
    for (const auto& [checkpoint, crash] : {std::pair(0, 3), std::pair(4, 4), std::pair(7, 13), std::pair(8, 12)}) {
      const auto path = folder.path() / "resumed" / name;
      {
        const auto first = open_writer(path, kFreshRun);
        train(*first, 1, checkpoint);
        first->flush();
        train(*first, checkpoint + 1, crash, 100);  // records after the checkpoint must leave no trace
        first->flush();
      }
      const auto second = open_writer(path, checkpoint);
      train(*second, checkpoint + 1, 20);
      second->flush();
      EXPECT_EQ(read_file(path), read_file(folder.path() / name)) << name << ' ' << checkpoint << ' ' << crash;
    }
  }
}

TEST(Resume, ARewindInsideARunLeavesNoTrace) {
  const std::pair<const char*, decltype(&open_state)> writers[] = {
      {"metrics.jsonl", open<JsonlWriter>}, {"metrics.csv", open<CsvWriter>}, {"trainer_state.json", open_state}};
  for (const auto& [name, open_writer] : writers) {
    const TemporaryFolder folder;
    const auto whole = open_writer(folder.path() / name, kFreshRun);
    train(*whole, 1, 12);
    whole->flush();
    const auto other = open_writer(folder.path() / "other" / name, kFreshRun);
    train(*other, 1, 6);
    train(*other, 7, 9, 100);
    other->rewind(6);
    train(*other, 7, 12);
    other->flush();
    EXPECT_EQ(read_file(folder.path() / "other" / name), read_file(folder.path() / name)) << name;
  }
}

TEST(Resume, CutsALineThatACrashCutShort) {
  const TemporaryFolder folder;
  const auto jsonl = folder.path() / "metrics.jsonl", csv = folder.path() / "metrics.csv";
  {
    JsonlWriter a(jsonl, kFreshRun);
    CsvWriter b(csv, kFreshRun);
    train(a, 1, 3);
    train(b, 1, 3);
  }
  const std::string whole_jsonl = read_file(jsonl), whole_csv = read_file(csv);
  for (const size_t lost : {1u, 2u, 30u}) {
    folder.write("metrics.jsonl", std::string_view(whole_jsonl).substr(0, whole_jsonl.size() - lost));
    folder.write("metrics.csv", std::string_view(whole_csv).substr(0, whole_csv.size() - lost));
    {
      JsonlWriter a(jsonl, 3);
      CsvWriter b(csv, 3);
      a.step(step_at(3));
      b.step(step_at(3));
    }
    EXPECT_EQ(read_file(jsonl), whole_jsonl) << lost;
    EXPECT_EQ(read_file(csv), whole_csv) << lost;
  }
  folder.write("metrics.jsonl", whole_jsonl + std::string(40, '\0') + "\n");  // blocks that never reached the disk
  { JsonlWriter a(jsonl, 3); }
  EXPECT_EQ(read_file(jsonl), whole_jsonl);
}

TEST(Resume, RefusesACsvWithOtherColumns) {
  const TemporaryFolder folder;
  const auto path = folder.write("metrics.csv", "step,loss\n1,2\n");
  test::expect_error([&] { CsvWriter(path, 1); }, ExitCode::data, {"metrics.csv", "columns", "move"});
  EXPECT_EQ(read_file(path), "step,loss\n1,2\n");
  { CsvWriter fresh(path, kFreshRun); }
  EXPECT_EQ(read_lines(path).size(), 1u);
}

TEST(AppendFile, WritesOnceASecond) {
  const TemporaryFolder folder;
  double now = 0;
  AppendFile file(folder.path() / "log", [&] { return now; });
  now = 0.5;
  file.append("a");
  EXPECT_EQ(read_file(file.path()), "");
  now = 1;
  file.append("b");
  EXPECT_EQ(read_file(file.path()), "ab");
  now = 1.9;
  file.append("c");
  EXPECT_EQ(read_file(file.path()), "ab");
  file.flush();
  EXPECT_EQ(read_file(file.path()), "abc");
  file.append(std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(read_file(file.path()).size(), 3 + (size_t{1} << 20));
}

TEST(AppendFile, SaysWhichFileCannotBeWritten) {
  test::expect_error([] { AppendFile("/proc/nowhere/metrics.jsonl"); }, ExitCode::data, {"/proc/nowhere"});
  AppendFile full("/dev/full", no_time);
  full.append("a");
  test::expect_error([&] { full.flush(); }, ExitCode::data, {"/dev/full", "No space left"});
  test::expect_error([&] { full.flush(); }, ExitCode::data, {"/dev/full"});  // the bytes are still in the buffer
}

// Fails as long as the test says so.
struct FailingSink final : MetricsSink {
  explicit FailingSink(const bool& is_broken) : broken(is_broken) {}
  void step(const StepMetrics&) override { check(); }
  void flush() override { check(); }
  void check() const {
    if (broken) throw data_error("disk full", "free some");
  }
  const bool& broken;
};

TEST(SinkList, AFailingSinkIsReportedOnceAndStopsNobody) {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  SinkList sinks([&](const std::string& line) { warnings.push_back(line); });
  bool broken = true;
  sinks.add(std::make_unique<FailingSink>(broken));
  sinks.add(std::make_unique<JsonlWriter>(folder.path() / "metrics.jsonl", kFreshRun));
  for (int64_t step = 1; step <= 3; ++step) sinks.step(step_at(step));
  sinks.flush();
  EXPECT_EQ(warnings, std::vector<std::string>{"disk full; free some"});
  EXPECT_EQ(read_lines(folder.path() / "metrics.jsonl").size(), 3u);
  broken = false;
  sinks.flush();
  broken = true;
  sinks.step(step_at(4));
  EXPECT_EQ(warnings.size(), 2u);
}

TEST(TensorboardWriter, FilesOfOneFolderAreOrdered) {
  const TemporaryFolder folder;
  double now = 1'700'000'000;
  const auto wall_clock = [&] { return now; };
  std::vector<std::string> names;
  for (const double moment : {0.0, 0.5, -100.0, 3.0}) {
    now = 1'700'000'000 + moment;
    names.push_back(TensorboardWriter(folder.path(), kFreshRun, wall_clock).path().filename().string());
  }
  EXPECT_TRUE(names[0].starts_with("events.out.tfevents.1700000000.")) << names[0];
  EXPECT_TRUE(names[1].starts_with("events.out.tfevents.1700000001.")) << names[1];
  EXPECT_TRUE(names[2].starts_with("events.out.tfevents.1700000002.")) << names[2];
  EXPECT_TRUE(names[3].starts_with("events.out.tfevents.1700000003.")) << names[3];
}

TEST(RunMetrics, OpensEveryFileOrThoseAskedFor) {
  const TemporaryFolder folder;
  const auto warn = [](const std::string& line) { ADD_FAILURE() << line; };
  {
    const auto sinks = open_run_metrics(folder.path() / "all", {.state = {.max_steps = 4}}, warn);
    train(*sinks, 1, 4);
    sinks->finish({.step = 4});
    sinks->flush();
  }
  for (const char* name : {"metrics.jsonl", "metrics.csv", "trainer_state.json"}) {
    EXPECT_GT(read_file(folder.path() / "all" / name).size(), 100u) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "all"), {}), 4);
  open_run_metrics(folder.path() / "one", {.csv = false, .tensorboard = false, .trainer_state = false}, warn);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "one"), {}), 1);
}

// Leaves a run folder for tools/check_tensorboard.py: a run that crashed at step 8 and was resumed from step 5.
TEST(RunMetrics, ExampleForTensorboard) {
  const TemporaryFolder folder;
  const char* asked = ::getenv("GRADMILL_EXAMPLE_RUN");
  const std::filesystem::path target = asked != nullptr ? asked : folder.path() / "run";
  std::filesystem::remove_all(target);
  const auto warn = [](const std::string& line) { ADD_FAILURE() << line; };
  const Hparams hparams = {{"optim.lr", 0.001}, {"model.style", std::string("qwen3")}, {"training.compile", true}};
  {
    const auto first = open_run_metrics(target, {}, warn);
    first->hparams(hparams);
    first->text(0, "sample", "before **training**");
    train(*first, 1, 5);
    train(*first, 6, 8, 100);
  }
  const auto second = open_run_metrics(target, {.resume_step = 5}, warn);
  second->hparams(hparams);
  train(*second, 6, 12);
  StepMetrics bad = step_at(13);
  bad.loss = kUnknown;
  bad.finite = false;
  second->step(bad);
  second->text(13, "sample", "after **training**");
  second->finish({.status = RunStatus::completed, .step = 13});
  second->flush();
  const RunRecord record = read_metrics(target / "metrics.jsonl");
  EXPECT_EQ(record.steps.size(), 13u);
  EXPECT_EQ(record.evals.size(), 3u);
}

}  // namespace
}  // namespace gradmill
