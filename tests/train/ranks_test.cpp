// SPDX-License-Identifier: Apache-2.0
// Runs of several ranks, which are threads here.
#include "support/thread_ranks.h"
#include "train/trainer_fixture.h"

namespace gradmill::test {
namespace {

class RanksTest : public TrainerTest {
 protected:
  RanksTest() {
    config_.machine.threads = 1;
    config_.training.steps = 20;
    config_.eval.every_steps = 10;
  }

  // Each rank's run, in a folder that they share. Rank `stops` asks for a stop after `stop_after` steps.
  std::vector<Run> run_ranks(const std::string& name, int num_ranks, int stops = 0, size_t stop_after = 0) {
    const std::filesystem::path run_folder = folder_.path() / name;
    std::filesystem::create_directories(run_folder);
    std::vector<Run> runs(static_cast<size_t>(num_ranks));
    ThreadRanks(num_ranks).run([&](Communicator& rank) {
      Run& run = runs[static_cast<size_t>(rank.rank())];
      CheckpointStore store(run_folder);
      Trainer trainer(config_, open_run(config_, {}, rank));
      trainer.attach({.metrics = &run.recorder,
                      .store = &store,
                      .stop_requested =
                          [&, is_here = rank.rank() == stops] {
                            return is_here && stop_after > 0 && run.recorder.steps.size() >= stop_after;
                          },
                      .note = [&](const std::string& line) { run.notes.push_back(line); }});
      run.outcome = trainer.run();
      const TensorView flat = trainer.session().weights().flat_master();
      run.weights.assign(flat.ptr<float>(), flat.ptr<float>() + flat.numel());
    });
    return runs;
  }
};

TEST_F(RanksTest, HaveTheLossesOfOneRank) {
  const Run alone = run("alone");
  for (const int num_ranks : {2, 4}) {
    const std::vector<Run> ranks = run_ranks(fmt::format("{} ranks", num_ranks), num_ranks);
    const std::vector<double> losses = ranks.front().recorder.losses();
    ASSERT_EQ(losses.size(), alone.recorder.losses().size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], alone.recorder.losses()[i], 1e-4) << i;
    EXPECT_NEAR(ranks.front().outcome.validation_loss, alone.outcome.validation_loss, 1e-3);
    for (const Run& rank : ranks) {
      EXPECT_EQ(rank.weights, ranks.front().weights);
      EXPECT_EQ(rank.recorder.losses(), losses);
      EXPECT_EQ(rank.outcome.validation_loss, ranks.front().outcome.validation_loss);
    }
    EXPECT_FALSE(ranks[0].outcome.sample.empty());
    EXPECT_TRUE(ranks[1].outcome.sample.empty());
  }
}

TEST_F(RanksTest, StopTogetherWhenOneIsAskedTo) {
  const std::vector<Run> ranks = run_ranks("stopped", 2, 1, 7);
  for (const Run& rank : ranks) {
    EXPECT_EQ(rank.outcome.status, RunStatus::interrupted);
    EXPECT_EQ(rank.outcome.step, ranks.front().outcome.step);
  }
  const CheckpointStore store(folder_.path() / "stopped");
  ASSERT_FALSE(store.steps().empty());
  EXPECT_EQ(store.steps().back(), ranks.front().outcome.step);
}

TEST_F(RanksTest, RefuseABatchThatHasNoEqualParts) {
  config_.training.batch_size = 9;
  std::vector<std::string> refusals(2);
  ThreadRanks(2).run([&](Communicator& rank) {
    try {
      Trainer trainer(config_, open_run(config_, {}, rank));
      Recorder recorder;
      trainer.attach({.metrics = &recorder});
      trainer.run();
    } catch (const Error& error) {
      refusals[static_cast<size_t>(rank.rank())] = error.what();
    }
  });
  for (const std::string& refusal : refusals) EXPECT_NE(refusal.find("no equal parts"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace gradmill::test
