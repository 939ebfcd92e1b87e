// SPDX-License-Identifier: Apache-2.0
// The loss of each sequence of a batch against evaluations of that sequence alone.
#include <gtest/gtest.h>

#include "data/batch.h"
#include "run/run_options.h"
#include "session/session.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 33, kContext = 48, kRows = 3, kSeqsPerRow = 4;

class SequenceLosses : public testing::TestWithParam<std::tuple<Device, const char*>> {
 protected:
  SequenceLosses() {
    config_.model.style = "llama";
    config_.model.layers = 2;
    config_.model.heads = 4;
    config_.model.kv_heads = 2;
    config_.model.width = 32;
    config_.model.context = kContext;
    config_.machine.device = device() == Device::cpu ? "cpu" : "cuda";
    config_.machine.dtype = std::get<1>(GetParam());
    config_.machine.threads = 2;
  }
  void SetUp() override {
    if (!is_present(device())) GTEST_SKIP() << "there is no GPU here";
  }
  static Device device() { return std::get<0>(GetParam()); }

  SessionOptions options(bool sequence_losses) const {
    SessionOptions options = session_options(config_);
    options.eval_seqs = kRows;
    options.seqs_per_row = kSeqsPerRow;
    options.sequence_losses = sequence_losses;
    options.inference = true;
    options.poison = true;
    return options;
  }

  // Sequence s has a prompt of s tokens that are no targets.
  static MicroBatch batch_of(const std::vector<int64_t>& lengths, const std::vector<size_t>& sequences) {
    std::vector<int32_t> ids;
    for (float value : random_values(300, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
    std::vector<Window> windows;
    for (size_t s : sequences) windows.push_back({static_cast<int64_t>(s) * 20, lengths[s]});
    MicroBatch batch = make_micro_batch(ids, windows, kRows, kContext);
    batch.num_targets = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const int32_t begin = batch.cu_seqlens[i], end = batch.cu_seqlens[i + 1];
      const auto prompt = std::min(static_cast<int32_t>(sequences[i]), end - begin);
      std::fill_n(batch.targets.begin() + begin, prompt, kIgnoredTarget);
      batch.num_targets += end - begin - prompt;
    }
    batch.cu_seqlens.resize(kRows * kSeqsPerRow + 1, batch.cu_seqlens.back());
    return batch;
  }

  RunConfig config_;
};

TEST_P(SequenceLosses, AreThoseOfSequencesAlone) {
  const Transformer model(model_spec(config_, kVocab));
  Session session(model, options(true));
  const std::vector<int64_t> lengths = {48, 1, 17};
  const MicroBatch together = batch_of(lengths, {0, 1, 2});
  const std::vector<Session::SequenceLoss> losses = session.eval_sequences(together);
  ASSERT_EQ(losses.size(), 3u);
  const double tolerance = config_.machine.dtype == std::string("fp32") ? 1e-5 : 1e-2;
  double sum = 0;
  int64_t num_targets = 0;
  for (size_t s = 0; s < 3; ++s) {
    const MicroBatch alone = batch_of(lengths, {s});
    const double expected = session.eval_micro(alone);
    EXPECT_NEAR(losses[s].loss_sum, expected, tolerance * (1 + expected)) << s;
    EXPECT_EQ(losses[s].num_targets, alone.num_targets) << s;
    EXPECT_EQ(session.eval_sequences(alone).size(), 1u);
    sum += losses[s].loss_sum;
    num_targets += losses[s].num_targets;
  }
  EXPECT_GT(losses[0].loss_sum, 48);  // an untrained model: about log(33) a token
  EXPECT_EQ(losses[1].num_targets, 0);
  EXPECT_EQ(losses[1].loss_sum, 0);
  EXPECT_EQ(num_targets, together.num_targets);
  EXPECT_NEAR(session.eval_micro(together), sum, 1e-6 * sum);
  const Session::ArenaUse use = session.arena_use();
  EXPECT_EQ(use.persistent, session.memory_plan().persistent.bytes);
}

TEST_P(SequenceLosses, TakeMemoryAndWorkWhereTheyAreAskedFor) {
  const Transformer model(model_spec(config_, kVocab));
  const MemoryPlan with = Session::plan(model, options(true)), without = Session::plan(model, options(false));
  EXPECT_EQ(with.persistent.bytes - without.persistent.bytes, align_up(kRows * kSeqsPerRow * sizeof(float)));
  EXPECT_EQ(with.phase(Phase::eval).ledger.lines().count("sequence_sums"), 1u);
  EXPECT_EQ(without.phase(Phase::eval).ledger.lines().count("sequence_sums"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, SequenceLosses,
                         testing::Combine(testing::ValuesIn(devices_of_build()), testing::Values("fp32", "bf16")),
                         [](const auto& test) {
                           return name_of_device(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace gradmill::test
