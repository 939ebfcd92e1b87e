// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding.h"

#include "ops/dropout.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kTokens = 300, kEntries = 101, kPositions = 9, kCols = 131;

class EmbeddingTest : public OpTest {
 protected:
  EmbeddingTest() {
    // A third of the rows use entry 7. No row uses an odd entry above 50.
    for (int32_t i = 0; i < kTokens; ++i) {
      const int32_t index = i * 37 % static_cast<int32_t>(kEntries);
      indices_.push_back(i % 3 == 0 ? 7 : index > 50 ? index & ~1 : index);
      positions_.push_back(i % static_cast<int32_t>(kPositions));
    }
  }

  TensorView matrix(int64_t rows, uint32_t seed, DType type) {
    return upload(random_values(rows * kCols, seed, 1, dtype()), {rows, kCols}, type);
  }

  EmbeddingArgs forward(DType type) {
    return {.indices = upload(indices_),
            .table = matrix(kEntries, 1, type),
            .position_indices = upload(positions_),
            .position_table = matrix(kPositions, 2, type),
            .y = tensor({kTokens, kCols}, type),
            .scale = 3};
  }

  EmbeddingGradArgs backward() {
    return {.indices = upload(indices_),
            .dy = matrix(kTokens, 3, dtype()),
            .dtable = tensor({kEntries, kCols}, DType::fp32),
            .scale = 3};
  }

  bool used(size_t entry) const {
    return std::find(indices_.begin(), indices_.end(), static_cast<int32_t>(entry)) != indices_.end();
  }

  std::vector<int32_t> indices_, positions_;
  const Arena::Mark start_ = ctx_.persistent.mark();
};

TEST_P(EmbeddingTest, LooksUp) {
  EmbeddingArgs args = forward(dtype());
  const std::vector<float> table = download(args.table), positions = download(args.position_table);
  std::vector<float> plain, with_positions;
  for (size_t i = 0; i < indices_.size(); ++i) {
    for (size_t c = 0; c < kCols; ++c) {
      plain.push_back(table[static_cast<size_t>(indices_[i]) * kCols + c]);
      with_positions.push_back(3 * plain.back() + positions[static_cast<size_t>(positions_[i]) * kCols + c]);
    }
  }
  embedding_forward(ctx_, args);
  expect_within_ulps(download(args.y), with_positions, dtype(), dtype() == DType::fp32 ? 16 : 1, "y");
  args = {.indices = args.indices, .table = args.table, .y = tensor({kTokens, kCols}, dtype())};
  embedding_forward(ctx_, args);
  expect_same_bits(download(args.y), plain, "y without positions");
}

// Types together with positions, and alone. Without type indices every row has type 0.
TEST_P(EmbeddingTest, LooksUpTypes) {
  std::vector<int32_t> type_of;
  for (int32_t i = 0; i < kTokens; ++i) type_of.push_back(i % 5 == 0 ? 1 : 0);
  for (bool with_positions : {false, true}) {
    for (bool with_types : {false, true}) {
      ctx_.persistent.release(start_);
      const TensorView table = matrix(2, 5, dtype());
      EmbeddingArgs args = forward(dtype());
      args.type_table = table;
      if (with_types) args.type_indices = upload(type_of);
      if (!with_positions) args.position_indices = args.position_table = {};
      const std::vector<float> entries = download(args.table), rows = download(table);
      const std::vector<float> positions = with_positions ? download(args.position_table) : std::vector<float>();
      std::vector<float> expected;
      for (size_t i = 0; i < indices_.size(); ++i) {
        const auto type = with_types ? static_cast<size_t>(type_of[i]) : 0;
        for (size_t c = 0; c < kCols; ++c) {
          const float position = with_positions ? positions[static_cast<size_t>(positions_[i]) * kCols + c] : 0;
          expected.push_back(3 * entries[static_cast<size_t>(indices_[i]) * kCols + c] +
                             (position + rows[type * kCols + c]));
        }
      }
      embedding_forward(ctx_, args);
      expect_within_ulps(download(args.y), expected, dtype(), dtype() == DType::fp32 ? 64 : 2, "y");
    }
  }
}

// The same bits as the dropout op, for rows whose size is a multiple of a pack and others.
TEST_P(EmbeddingTest, DropsWhatItLooksUp) {
  scalars().seed = 0x123456789abcdef0;
  scalars().step = 17;
  scalars().token_base = 1000;
  for (const int64_t cols : {int64_t{384}, kCols}) {
    for (const float probability : {0.3f, 0.0f}) {
      scalars().dropout = probability;
      EmbeddingArgs args{.indices = upload(indices_),
                         .table = upload(random_values(kEntries * cols, 1, 1, dtype()), {kEntries, cols}, dtype()),
                         .y = tensor({kTokens, cols}, dtype()),
                         .scale = 3};
      embedding_forward(ctx_, args);
      const TensorView expected = tensor({kTokens, cols}, dtype());
      dropout(ctx_, {.x = args.y, .y = expected, .site = 9});
      args.y = tensor({kTokens, cols}, dtype());
      args.dropout = true;
      args.dropout_site = 9;
      embedding_forward(ctx_, args);
      expect_same_bits(download(args.y), download(expected), "dropped");
    }
  }
}

TEST_P(EmbeddingTest, GradientSumsRowsOfAnEntry) {
  const EmbeddingGradArgs args = backward();
  embedding_backward(ctx_, args);
  const std::vector<float> dy = download(args.dy), dtable = download(args.dtable);
  std::vector<double> sums(kEntries * kCols);
  for (size_t i = 0; i < dy.size(); ++i) {
    sums[static_cast<size_t>(indices_[i / kCols]) * kCols + i % kCols] += 3.0 * dy[i];
  }
  expect_reduction(dtable, std::vector<float>(sums.begin(), sums.end()), DType::fp32, kTokens / 3, 1, "dtable");
  ASSERT_FALSE(used(51));
  EXPECT_EQ(std::count(dtable.begin() + 51 * kCols, dtable.begin() + 52 * kCols, 0.0f), kCols);
}

TEST_P(EmbeddingTest, BetaOneAddsAndLeavesUnusedEntriesAlone) {
  EmbeddingGradArgs fresh = backward();
  embedding_backward(ctx_, fresh);
  const std::vector<float> sums = download(fresh.dtable);
  std::vector<float> old = random_values(kEntries * kCols, 9), expected = old;
  for (size_t i = 0; i < old.size(); ++i) {
    if (used(i / kCols)) expected[i] += sums[i];
  }
  EmbeddingGradArgs args = fresh;
  args.beta = 1;
  args.dtable = upload(old, {kEntries, kCols}, DType::fp32);
  embedding_backward(ctx_, args);
  expect_reduction(download(args.dtable), expected, DType::fp32, kTokens / 3, 1, "dtable");
  const std::vector<float> actual = download(args.dtable);
  for (size_t entry = 0; entry < kEntries; ++entry) {
    if (used(entry)) continue;
    const auto row = std::span(actual).subspan(entry * kCols, kCols);
    expect_same_bits(row, std::span(old).subspan(entry * kCols, kCols), "unused entry");
  }
}

TEST_P(EmbeddingTest, OtherBetasScaleEverything) {
  EmbeddingGradArgs args = backward();
  args.beta = 0.5f;
  args.dtable = upload(std::vector<float>(kEntries * kCols, 4.0f), {kEntries, kCols}, DType::fp32);
  embedding_backward(ctx_, args);
  const std::vector<float> half = download(args.dtable);
  EXPECT_EQ(std::count(half.begin() + 51 * kCols, half.begin() + 52 * kCols, 2.0f), kCols);
  EmbeddingGradArgs fresh = backward();
  embedding_backward(ctx_, fresh);
  std::vector<float> expected = download(fresh.dtable);
  for (float& value : expected) value += 2;
  expect_reduction(half, expected, DType::fp32, kTokens / 3, 1, "dtable");
}

// Each entry's rows are added to the running gradient in order, so the split of a step makes no difference: not a bit
// on the CPU; a GPU sums an entry's rows before it adds them.
TEST_P(EmbeddingTest, TwoMicroBatchesHaveTheBitsOfOne) {
  const EmbeddingGradArgs whole = backward();
  embedding_backward(ctx_, whole);
  EmbeddingGradArgs part = whole;
  part.dtable = tensor({kEntries, kCols}, DType::fp32);
  part.indices = whole.indices.slice_rows(0, 123);
  part.dy = whole.dy.slice_rows(0, 123);
  embedding_backward(ctx_, part);
  part.indices = whole.indices.slice_rows(123, kTokens);
  part.dy = whole.dy.slice_rows(123, kTokens);
  part.beta = 1;
  embedding_backward(ctx_, part);
  if (on_gpu())
    expect_reduction(download(part.dtable), download(whole.dtable), DType::fp32, kTokens / 3, 1, "dtable");
  else
    expect_same_bits(download(part.dtable), download(whole.dtable), "dtable");
}

struct Size {
  int64_t tokens, entries, cols;
};
// Few entries with many rows each, like characters, positions and types, up to all rows of several tiles; as many
// entries as one digit can distinguish, and one more; vectors with a ragged last block of columns; enough entries for a
// sort with three passes; a single row.
constexpr Size kSizes[] = {{5000, 65, 64},   {6001, 256, 40}, {4096, 257, 8}, {6001, 2, 24},    {5000, 1, 72},
                           {4099, 3000, 72}, {500, 60, 2064}, {5000, 30, 9},  {3001, 70000, 8}, {1, 5, 8}};

TEST_P(EmbeddingTest, LooksUpAsTheCpuDoes) {
  for (const Size& size : kSizes) {
    std::vector<int32_t> indices, positions;
    for (int64_t i = 0; i < size.tokens; ++i) {
      indices.push_back(static_cast<int32_t>(i * 7919 % size.entries));
      positions.push_back(static_cast<int32_t>(i % 16));
    }
    EmbeddingArgs args{
        .indices = upload(indices),
        .table = upload(random_values(size.entries * size.cols, 1, 1, dtype()), {size.entries, size.cols}, dtype()),
        .position_indices = upload(positions),
        .position_table = upload(random_values(16 * size.cols, 2, 1, dtype()), {16, size.cols}, dtype()),
        .y = ctx_.alloc(ctx_.saved, {size.tokens, size.cols}, dtype(), "y"),
        .scale = 0.7f};
    embedding_forward(reference_, args);
    const std::vector<float> expected = download(args.y);
    std::fill_n(static_cast<std::byte*>(args.y.data), args.y.bytes(), std::byte{0xff});
    embedding_forward(ctx_, args);
    expect_same_bits(download(args.y), expected, "y");
    ctx_.saved.release({});
    ctx_.persistent.release(start_);
  }
}

TEST_P(EmbeddingTest, GradientAgreesWithTheCpu) {
  for (const Size& size : kSizes) {
    for (float beta : {0.0f, 0.5f, 1.0f}) {
      std::vector<int32_t> indices;  // a third of the rows use one entry, the others most of the remaining ones
      for (int64_t i = 0; i < size.tokens; ++i) {
        indices.push_back(static_cast<int32_t>((i % 3 == 0 ? 60 : i * 7919) % size.entries));
      }
      const std::vector<float> old = random_values(size.entries * size.cols, 5);
      EmbeddingGradArgs args{
          .indices = upload(indices),
          .dy = upload(random_values(size.tokens * size.cols, 3, 1, dtype()), {size.tokens, size.cols}, dtype()),
          .dtable = upload(old, {size.entries, size.cols}, DType::fp32),
          .scale = 0.7f,
          .beta = beta};
      embedding_backward(reference_, args);
      const std::vector<float> expected = download(args.dtable);
      std::copy(old.begin(), old.end(), args.dtable.ptr<float>());
      embedding_backward(ctx_, args);
      const std::vector<float> actual = download(args.dtable);
      expect_reduction(actual, expected, DType::fp32, size.tokens, 1, "dtable");
      std::copy(old.begin(), old.end(), args.dtable.ptr<float>());
      embedding_backward(ctx_, args);
      expect_same_bits(download(args.dtable), actual, "dtable of a second run");
      ctx_.persistent.release(start_);
    }
  }
}

// Tables that share dy, with few and with many entries, give the same bits as each table alone.
TEST_P(EmbeddingTest, TablesTogetherHaveTheBitsOfEachAlone) {
  constexpr int64_t kRows = 5000;
  const std::vector<int64_t> entries[] = {{65, 256}, {256, 3, 65}, {300, 65, 2}, {65, 400}, {500, 300}};
  for (const int64_t cols : {int64_t{40}, int64_t{9}}) {
    for (const std::vector<int64_t>& sizes : entries) {
      const TensorView dy = upload(random_values(kRows * cols, 3, 1, dtype()), {kRows, cols}, dtype());
      std::vector<EmbeddingGradArgs> tables;
      for (const int64_t size : sizes) {
        std::vector<int32_t> indices;
        for (int64_t i = 0; i < kRows; ++i) indices.push_back(static_cast<int32_t>(i * (7919 + size) % size));
        tables.push_back({.indices = upload(indices),
                          .dy = dy,
                          .dtable = upload(random_values(size * cols, 5), {size, cols}, DType::fp32),
                          .scale = 0.5f + static_cast<float>(tables.size()),
                          .beta = tables.empty() ? 1.0f : 0.0f});
      }
      std::vector<std::vector<float>> alone;
      for (EmbeddingGradArgs args : tables) {
        args.dtable = upload(download(args.dtable), args.dtable.shape, DType::fp32);
        embedding_backward(ctx_, args);
        alone.push_back(download(args.dtable));
      }
      embedding_backward(ctx_, tables);
      for (size_t i = 0; i < tables.size(); ++i) expect_same_bits(download(tables[i].dtable), alone[i], "dtable");
      ctx_.persistent.release(start_);
    }
  }
}

TEST_P(EmbeddingTest, OneEntryForAllRows) {
  const TensorView dy = upload(std::vector<float>(kTokens * kCols, 0.5f), {kTokens, kCols}, dtype());
  const TensorView dtable = tensor({1, kCols}, DType::fp32);
  embedding_backward(ctx_, {.indices = upload(std::vector<int32_t>(kTokens)), .dy = dy, .dtable = dtable});
  expect_same_bits(download(dtable), std::vector<float>(kCols, 150.0f), "dtable");
}

TEST_P(EmbeddingTest, BitsDoNotDependOnThreads) {
  const EmbeddingArgs args = forward(dtype());
  EmbeddingGradArgs grad = backward();
  std::vector<float> y, dtable;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    embedding_forward(ctx_, args);
    grad.dtable = tensor({kEntries, kCols}, DType::fp32);
    embedding_backward(ctx_, grad);
    if (threads == 1) {
      y = download(args.y);
      dtable = download(grad.dtable);
    }
    expect_same_bits(download(args.y), y, "y");
    expect_same_bits(download(grad.dtable), dtable, "dtable");
  }
}

TEST_P(EmbeddingTest, OnPaperScratchIsAsInTheRun) {
  const EmbeddingGradArgs tokens = backward();
  const TensorView positions = tensor({kPositions, kCols}, DType::fp32);
  const EmbeddingGradArgs tables[] = {tokens, {.indices = upload(positions_), .dy = tokens.dy, .dtable = positions}};
  embedding_backward(ctx_, tables);
  ExecContext paper;
  paper.dry = true;
  paper.device = ctx_.device;
  const TensorView indices(nullptr, DType::int32, {kTokens}), rows(nullptr, dtype(), {kTokens, kCols});
  embedding_forward(paper, {.indices = indices, .table = TensorView(nullptr, dtype(), {kEntries, kCols}), .y = rows});
  const TensorView dtable(nullptr, DType::fp32, {kEntries, kCols}),
      dpositions(nullptr, DType::fp32, {kPositions, kCols});
  const EmbeddingGradArgs on_paper[] = {{.indices = indices, .dy = rows, .dtable = dtable},
                                        {.indices = indices, .dy = rows, .dtable = dpositions}};
  embedding_backward(paper, on_paper);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

class EmbeddingGradients : public EmbeddingTest {};
TEST_P(EmbeddingGradients, CentralDifferences) {
  const EmbeddingArgs args = forward(DType::fp32);
  EmbeddingGradArgs grad = backward();
  embedding_backward(ctx_, grad);
  const GradientCheck check{
      .forward = [&] { embedding_forward(ctx_, args); }, .output = args.y, .doutput = download(grad.dy)};
  expect_gradient(check, args.table, download(grad.dtable), "table");
  grad.indices = args.position_indices;
  grad.dtable = tensor({kPositions, kCols}, DType::fp32);
  grad.scale = 1;
  embedding_backward(ctx_, grad);
  expect_gradient(check, args.position_table, download(grad.dtable), "position table");
}

INSTANTIATE_TEST_SUITE_P(Ops, EmbeddingGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, EmbeddingTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
