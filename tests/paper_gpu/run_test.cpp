// SPDX-License-Identifier: Apache-2.0
// Whole runs on a paper GPU: which resources they take, and when.
#include <gtest/gtest.h>

#include "core/error.h"
#include "paper_gpu/memory.h"
#include "paper_gpu/paper_gpu.h"
#include "run/labelled_run_fixture.h"
#include "bench/ladder.h"
#include "train/trainer.h"

namespace gradmill::test {
namespace {

// Checks the counts after every step and evaluation.
struct Watch : MetricsSink {
  void step(const StepMetrics& metrics) override {
    EXPECT_EQ(metrics.loss, 0) << "of step " << metrics.step << ", where nothing is computed";
    look(fmt::format("step {}", metrics.step), metrics.step <= 3);
  }
  void eval(const EvalMetrics& metrics) override { look(fmt::format("the evaluation at {}", metrics.step), false); }
  void text(int64_t, std::string_view tag, std::string_view) override { look("the " + std::string(tag), false); }
  void note(const std::string& line) {
    if (settled) late.push_back(line);
  }

  void look(const std::string& when, bool may_change) {
    const paper::Counts now = paper::counts();
    if (!may_change) {
      EXPECT_EQ(now.allocations, before.allocations) << "memory was taken or given back until " << when;
      EXPECT_EQ(now.graphs, before.graphs) << "a graph was captured until " << when;
      settled = true;
      ++looks;
    }
    before = now;
  }

  paper::Counts before;
  bool settled = false;
  int looks = 0;
  std::vector<std::string> late;
};

class PaperRun : public LabelledRunTest {
 protected:
  PaperRun() { config_.machine.device = "cuda"; }
  ~PaperRun() override {
    paper::refusals() = {};
    EXPECT_TRUE(paper::faults().empty()) << paper::faults().front();
  }

  static RunConfig text_config() {
    RunConfig config;
    config.machine.device = "cuda";
    config.model.layers = 2;
    config.training.steps = 40;
    config.eval.every_steps = 10;
    config.sample.tokens = 20;
    return config;
  }

  static void expect_quiet(const RunConfig& config) {
    Watch watch;
    Trainer trainer(config, open_run(config));
    trainer.attach({.metrics = &watch, .note = [&](const std::string& line) { watch.note(line); }});
    trainer.run();
    EXPECT_GT(watch.looks, 20);
    EXPECT_GT(paper::counts().graph_launches, 20u);
    EXPECT_TRUE(watch.late.empty()) << watch.late.front();
  }
};

TEST_F(PaperRun, TakesNothingAfterTheFirstSteps) { expect_quiet(text_config()); }

// Validation text that ends inside a sequence, in larger batches than training's.
TEST_F(PaperRun, TakesNothingForLargerEvaluations) {
  RunConfig config = text_config();
  config.eval.batch_size = 100;
  config.model.dropout = 0.1;
  config.training.micro_batch_size = 5;
  expect_quiet(config);
}

// More uploads in a step than slots, while the GPU lags behind: each waits for the previous one in its slot.
TEST_F(PaperRun, UploadsDoNotOvertakeTheGpu) {
  RunConfig config = text_config();
  config.model.context = 2048;
  config.training.batch_size = 80;
  config.training.micro_batch_size = 1;
  config.training.steps = 8;
  Recorder recorder;
  Trainer trainer(config, open_run(config));
  trainer.attach({.metrics = &recorder});
  trainer.run();
  EXPECT_EQ(recorder.steps.size(), 8u);
}

TEST_F(PaperRun, TakesNothingWithAveragedWeights) {
  RunConfig config = text_config();
  config.optimizer.ema_decay = 0.99;
  config.machine.save_policy = "block";
  expect_quiet(config);
}

// Rows are filled as sequences arrive, so that later training batches may have other sizes; evaluations are prepared
// for all sizes.
TEST_F(PaperRun, ClassifierTakesNoMemoryLater) {
  Watch watch;
  Trainer trainer(config_, open_run(config_));
  const size_t used = paper::Memory::device().used();
  trainer.attach({.metrics = &watch, .note = [](const std::string&) {}});
  trainer.run();
  EXPECT_GT(watch.looks, 20);
  EXPECT_EQ(paper::Memory::device().used(), used);
}

// Runs to the end and returns the notes.
std::string notes_of(Trainer& trainer) {
  std::string notes;
  Recorder recorder;
  trainer.attach({.metrics = &recorder, .note = [&](const std::string& line) { notes += line + "\n"; }});
  EXPECT_EQ(trainer.run().step, 40);
  return notes;
}

TEST_F(PaperRun, DoesWithoutGraphs) {
  const RunConfig config = text_config();
  Trainer trainer(config, open_run(config));
  const size_t launched = paper::counts().graph_launches;
  paper::refusals().graphs = true;
  const std::string notes = notes_of(trainer);
  EXPECT_NE(notes.find("CUDA graphs are off: out of memory"), std::string::npos) << notes;
  EXPECT_EQ(paper::counts().graph_launches, launched);
}

// A constructed trainer has everything it needs. Only the timing of GEMMs allocates more, and it is skipped if memory
// is exhausted.
TEST_F(PaperRun, RunsOnceItIsThere) {
  RunConfig config = text_config();
  config.compile.mode = "max-autotune";
  config.compile.cache = (folder_.path() / "tuning").string();
  config.eval.batch_size = 100;
  Trainer trainer(config, open_run(config));
  paper::refusals().allocations_left = 0;
  const std::string notes = notes_of(trainer);
  EXPECT_NE(notes.find("not tuned: there is not enough memory"), std::string::npos) << notes;
}

// Whichever allocation fails, the result is an error that says so and leaves nothing, or a run without that memory.
TEST_F(PaperRun, SurvivesEveryAllocationThatFails) {
  RunConfig config = text_config();
  config.compile.mode = "max-autotune";
  const size_t device = paper::Memory::device().used(), host = paper::Memory::host().used();
  bool done = false;
  int failed = 0;
  for (size_t allowed = 0; !done && allowed < 300; ++allowed) {
    config.compile.cache = (folder_.path() / std::to_string(allowed)).string();
    paper::refusals().allocations_left = allowed;
    try {
      Trainer trainer(config, open_run(config));
      notes_of(trainer);
      done = paper::refusals().allocations_left > 0;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::out_of_memory) << error.what();
      ++failed;
    }
    EXPECT_EQ(paper::Memory::device().used(), device) << allowed;
    EXPECT_EQ(paper::Memory::host().used(), host) << allowed;
  }
  EXPECT_TRUE(done);
  EXPECT_GT(failed, 5);
}

TEST_F(PaperRun, SaysWhenAKernelHasFailed) {
  const RunConfig config = text_config();
  const size_t device = paper::Memory::device().used();
  {
    Trainer trainer(config, open_run(config));
    paper::refusals().waits = true;
    Recorder recorder;
    trainer.attach({.metrics = &recorder});
    try {
      trainer.run();
      ADD_FAILURE() << "nobody was told";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::failure);
      EXPECT_NE(std::string(error.what()).find("unspecified launch failure"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(paper::Memory::device().used(), device);
}

TEST_F(PaperRun, ResumingTakesNoMore) {
  const RunConfig config = text_config();
  const size_t before = paper::Memory::device().used();
  Recorder recorder;
  CheckpointStore store(folder_.path());
  size_t fresh = 0;
  {
    Trainer trainer(config, open_run(config));
    trainer.attach({.metrics = &recorder, .store = &store});
    trainer.run();
    fresh = paper::Memory::device().used() - before;
  }
  Trainer trainer(config, open_run(config));
  trainer.attach({.metrics = &recorder, .store = &store});
  const std::optional<Checkpoint> saved = store.newest();
  ASSERT_TRUE(saved.has_value());
  trainer.resume(*saved);
  EXPECT_EQ(paper::Memory::device().used() - before, fresh);
}

TEST_F(PaperRun, KeepsWhatItTimedBeforeItEnds) {
  RunConfig config = text_config();
  config.compile.mode = "max-autotune";
  config.compile.cache = (folder_.path() / "tuning").string();
  struct : MetricsSink {
    void step(const StepMetrics& metrics) override {
      if (metrics.step == 5) there = std::filesystem::exists(file);
    }
    std::string file;
    bool there = false;
  } watch;
  watch.file = config.compile.cache;
  {
    Trainer trainer(config, open_run(config));
    trainer.attach({.metrics = &watch});
    trainer.run();
  }
  EXPECT_TRUE(watch.there);
  config.compile.cache = (folder_.path() / "tuning" / "within a file").string();
  Trainer trainer(config, open_run(config));
  EXPECT_NE(notes_of(trainer).find("cannot write the tuning cache"), std::string::npos);
}

TEST_F(PaperRun, TakesWhatIsPlanned) {
  constexpr size_t kPages = size_t{16} << 20;  // allocations are rounded up
  for (const char* style : {"gpt2", "llama", "qwen3"}) {
    RunConfig config = text_config();
    config.model.style = style;
    config.model.layers = 12;
    config.model.width = 768;
    config.model.heads = 12;
    config.model.context = 512;
    const size_t before = paper::Memory::device().used();
    Trainer trainer(config, open_run(config));
    const size_t taken = paper::Memory::device().used() - before;
    const MemoryPlan& plan = trainer.session().memory_plan();
    EXPECT_GE(taken, plan.slab_bytes() + plan.device.library_bytes) << style;
    EXPECT_LE(taken, plan.slab_bytes() + plan.device.library_bytes + kPages) << style;
  }
}

TEST_F(PaperRun, EveryRungOfTheLadderRuns) {
  RunConfig config = text_config();
  config.model.width = 384;
  config.model.heads = 6;
  config.model.dropout = 0.2;
  config.compile.cache = (folder_.path() / "tuning").string();
  const Ladder ladder = run_ladder(config, 65, {.steps = 2, .repeats = 1});
  const bool old = paper::gpu().compute_capability < 80;
  for (const std::vector<RungResult>* rungs : {&ladder.climb, &ladder.all_but}) {
    for (const RungResult& rung : *rungs) {
      const bool lacking = old && (rung.name == "+ tf32" || rung.name.starts_with("cuDNN"));
      EXPECT_EQ(rung.ran(), !lacking) << rung.name << ": " << rung.failure;
    }
  }
}

TEST_F(PaperRun, RefusesBeforeItAllocates) {
  RunConfig config = text_config();
  config.model.layers = 48;
  config.model.width = 8192;
  config.model.heads = 64;
  const size_t used = paper::Memory::device().used();
  try {
    Trainer trainer(config, open_run(config));
    ADD_FAILURE() << "a model of 39 billion parameters fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find(paper::gpu().title), std::string::npos) << error.what();
  }
  EXPECT_EQ(paper::Memory::device().used(), used);
}

}  // namespace
}  // namespace gradmill::test
