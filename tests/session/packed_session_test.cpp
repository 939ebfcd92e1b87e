// SPDX-License-Identifier: Apache-2.0
// Documents that share rows: the same loss and gradients as with one document per row, and a plan that is exact to the
// byte.
#include <gtest/gtest.h>

#include <cmath>

#include "data/tokens/pack.h"
#include "support/op_test.h"
#include "run/run_options.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 41, kContext = 48;

std::vector<std::vector<int32_t>> documents() {
  std::vector<std::vector<int32_t>> result;
  for (const int64_t length : {3, 20, 1, 48, 7, 2, 30, 11, 5, 47, 16, 2}) {
    std::vector<int32_t>& ids = result.emplace_back();
    for (float value : random_values(length, static_cast<uint32_t>(result.size()))) {
      ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
    }
  }
  return result;
}

MicroBatch batch_of(const std::vector<std::vector<int32_t>>& documents, const RowList& rows, int64_t num_rows,
                    int64_t max_seqs) {
  std::vector<int32_t> all;
  for (const auto& document : documents) all.insert(all.end(), document.begin(), document.end());
  PackedBatchBuilder builder(num_rows, kContext, max_seqs);
  for (const Piece& piece : rows.pieces) {
    const PackedBatchBuilder::Sequence sequence = builder.add(piece.length);
    std::copy_n(all.begin() + piece.begin, piece.length, sequence.tokens.begin());
    std::copy_n(all.begin() + piece.begin + 1, piece.length - 1, sequence.targets.begin());
  }
  return builder.finish();
}

struct Result {
  double loss = 0, eval_loss = 0;
  float grad_norm = 0;
  std::vector<float> weights;
};

// A step on the documents as they lie in the batch. The plan must be what is used.
Result step(const std::string& style, const std::string& policy, const MicroBatch& batch, int64_t rows,
            int64_t seqs_per_row) {
  RunConfig config;
  config.model.style = style;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = style == "gpt2" ? 0 : 2;
  config.model.width = 32;
  config.model.context = kContext;
  config.machine.device = "cpu";
  config.machine.threads = 2;
  config.machine.save_policy = policy;
  SessionOptions options = session_options(config);
  options.train_seqs = options.eval_seqs = rows;
  options.seqs_per_row = seqs_per_row;
  options.poison = true;
  TransformerSpec spec = model_spec(config, kVocab);
  spec.init_std = 0.25f;  // large enough that attention looks at something
  const Transformer model(spec);
  Session session(model, options);
  Result result;
  result.eval_loss = session.eval_micro(batch) / double(batch.num_targets);
  session.begin_step(0, 1e-3f, batch.num_targets);
  session.train_micro(batch);
  const Session::StepResult done = session.end_step();
  result.loss = done.loss_sum / double(batch.num_targets);
  result.grad_norm = done.grad_norm;
  result.weights = session.read(session.weights().flat_master());
  const Session::ArenaUse use = session.arena_use();
  const MemoryPlan& plan = session.memory_plan();
  EXPECT_EQ(use.persistent, plan.persistent.bytes);
  for (const Phase phase : {Phase::train, Phase::eval}) {
    EXPECT_EQ(use.phases[static_cast<size_t>(phase)].saved, plan.phase(phase).saved.bytes) << name_of(phase);
    EXPECT_EQ(use.phases[static_cast<size_t>(phase)].scratch, plan.phase(phase).scratch.bytes) << name_of(phase);
  }
  return result;
}

TEST(PackedSession, LossesOfPackedAndSingleDocumentsAgree) {
  const auto texts = documents();
  std::vector<int64_t> ends;
  for (const auto& text : texts) ends.push_back((ends.empty() ? 0 : ends.back()) + std::ssize(text));
  const PackOptions packing = checked_pack_options({.context = kContext, .row_documents = 6});
  const RowList packed = pack_documents(ends, packing);
  const RowList single = pack_documents(ends, checked_pack_options({.context = kContext, .row_documents = 1}));
  ASSERT_LT(packed.num_rows(), 6);
  ASSERT_EQ(single.num_rows(), std::ssize(texts));
  const int64_t rows = packed.num_rows(), seqs = packing.row_documents;
  const MicroBatch together = batch_of(texts, packed, rows, rows * seqs);
  const MicroBatch apart = batch_of(texts, single, single.num_rows(), single.num_rows());
  ASSERT_EQ(together.num_targets, apart.num_targets);
  for (const char* style : {"llama", "gpt2"}) {
    for (const char* policy : {"none", "block"}) {
      const Result a = step(style, policy, together, rows, seqs), b = step(style, policy, apart, single.num_rows(), 1);
      EXPECT_NEAR(a.loss, b.loss, 1e-5) << style;
      EXPECT_NEAR(a.eval_loss, b.eval_loss, 1e-5) << style;
      EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5 * b.grad_norm) << style;
      ASSERT_EQ(a.weights.size(), b.weights.size());
      // AdamW's first step is the sign of a gradient, so tiny differences of tiny gradients show: few may.
      size_t different = 0;
      for (size_t i = 0; i < a.weights.size(); ++i) different += std::fabs(a.weights[i] - b.weights[i]) > 1e-5f;
      EXPECT_LT(different, a.weights.size() / 200) << style;
    }
  }
}

TEST(PackedSession, DocumentsDoNotSeeEachOther) {
  auto texts = documents();
  std::vector<int64_t> ends;
  for (const auto& text : texts) ends.push_back((ends.empty() ? 0 : ends.back()) + std::ssize(text));
  const PackOptions packing = checked_pack_options({.context = kContext, .row_documents = 6});
  const RowList rows = pack_documents(ends, packing);
  const auto loss_of_others = [&](size_t changed) {
    MicroBatch batch = batch_of(texts, rows, rows.num_rows(), rows.num_rows() * packing.row_documents);
    for (size_t sequence = 0; sequence < rows.pieces.size(); ++sequence) {
      const auto at = std::ranges::upper_bound(ends, rows.pieces[sequence].begin) - ends.begin();
      if (static_cast<size_t>(at) != changed) continue;
      for (int32_t row = batch.cu_seqlens[sequence]; row < batch.cu_seqlens[sequence + 1]; ++row) {
        batch.targets[static_cast<size_t>(row)] = kIgnoredTarget;
      }
    }
    return step("llama", "none", batch, rows.num_rows(), packing.row_documents).eval_loss;
  };
  const double before = loss_of_others(6);
  for (int32_t& id : texts[6]) id = static_cast<int32_t>((id + 1) % kVocab);
  EXPECT_EQ(loss_of_others(6), before);
}

}  // namespace
}  // namespace gradmill::test
