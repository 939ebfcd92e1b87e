// SPDX-License-Identifier: Apache-2.0
// Compares sentence embeddings of all-MiniLM-L6-v2 with transformers (tools/make_embedding_golden.py): the hidden
// states of an unpadded batch, averaged over each text and scaled to length 1. Needs GRADMILL_MINILM, the model's
// folder.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "cpu/thread_pool.h"
#include "model_files/load_weights.h"
#include "model_files/open_model.h"
#include "ops/transfer.h"
#include "support/goldens.h"
#include "support/test_device.h"
#include "run/run_tokenizer.h"

namespace gradmill::test {
namespace {

constexpr size_t kArenaBytes = size_t{512} << 20;
constexpr double kTolerance = 1e-4;

using Ids = std::vector<TokenId>;
using Vector = std::vector<float>;

class Encoder {
 public:
  Encoder(const std::string& folder, Device device)
      : opened_(open_model(folder)), model_(opened_.config.spec), device_(make_test_device(device, kArenaBytes)) {
    device_->attach(ctx_);
    ctx_.pool = &pool_;
    ctx_.kernels.tf32 = false;
    weights_.emplace(ctx_, model_.params(), DType::fp32);
    WeightsFiller filler(ctx_, *weights_, 0);
    load_weights(*opened_.tensors, map_weights(*opened_.tensors, *opened_.config.family, model_, false), model_,
                 filler);
    tables_ = model_.make_position_tables(ctx_, model_.spec().max_positions);
  }

  // One vector per text, independent of the rest of the batch.
  std::vector<Vector> embed(const std::vector<Ids>& texts) {
    const ArenaScope scope(ctx_.persistent);
    std::vector<int32_t> tokens, positions, offsets = {0};
    SeqLayout seq{.max_seqs = std::ssize(texts)};
    for (const Ids& ids : texts) {
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      for (int32_t i = 0; i < std::ssize(ids); ++i) positions.push_back(i);
      offsets.push_back(static_cast<int32_t>(tokens.size()));
      seq.max_len = std::max<int64_t>(seq.max_len, std::ssize(ids));
    }
    const auto capacity = static_cast<size_t>(token_capacity(std::ssize(tokens)));
    tokens.resize(capacity);
    positions.resize(capacity);
    seq.positions = upload(positions);
    seq.cu_q = seq.cu_kv = upload(offsets);
    const TensorView out =
        ctx_.alloc(ctx_.persistent, {std::ssize(tokens), model_.spec().width}, DType::fp32, "hidden");
    Pass pass{.ctx = ctx_, .weights = *weights_, .seq = seq, .tables = tables_};
    model_.hidden(pass, {.tokens = upload(tokens), .token_types = upload(std::vector<int32_t>(capacity))}, out);
    return means(out, offsets);
  }

 private:
  TensorView upload(const std::vector<int32_t>& values) {
    const TensorView view = ctx_.alloc(ctx_.persistent, {std::ssize(values)}, DType::int32, "ints");
    copy_to_device(ctx_, view, values.data());
    return view;
  }

  std::vector<Vector> means(const TensorView& hidden, const std::vector<int32_t>& offsets) {
    const auto width = static_cast<size_t>(hidden.cols());
    Vector rows(static_cast<size_t>(hidden.numel()));
    copy_to_host(ctx_, rows.data(), hidden);
    std::vector<Vector> result;
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      Vector sum(width);
      for (auto row = static_cast<size_t>(offsets[s]); row < static_cast<size_t>(offsets[s + 1]); ++row) {
        for (size_t i = 0; i < width; ++i) sum[i] += rows[row * width + i];
      }
      const float length = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0f));
      for (float& value : sum) value /= length;
      result.push_back(std::move(sum));
    }
    return result;
  }

  OpenedModel opened_;
  Transformer model_;
  std::unique_ptr<TestDevice> device_;
  cpu::ThreadPool pool_{2};
  ExecContext ctx_;
  std::optional<Weights> weights_;
  PositionTables tables_;
};

struct Golden {
  SafeTensors file{golden_path("embeddings_minilm")};
  TensorView embeddings = file.at("embeddings"), lengths = file.at("lengths"), ids = file.at("input_ids");

  int64_t size() const { return lengths.numel(); }
  const std::string& text(int64_t i) const { return file.metadata().at("text." + std::to_string(i)); }
  int64_t max_length() const { return std::stoll(file.metadata().at("max_length")); }
};

double largest_difference(const Vector& ours, const float* theirs) {
  double largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) largest = std::max(largest, std::abs(double(ours[i]) - theirs[i]));
  return largest;
}

struct EmbeddingTest : testing::TestWithParam<Device> {};

TEST_P(EmbeddingTest, AsTransformers) {
  if (!is_present(GetParam())) GTEST_SKIP() << "there is no GPU here";
  const char* const folder = std::getenv("GRADMILL_MINILM");
  if (folder == nullptr) GTEST_SKIP() << "set GRADMILL_MINILM";
  const Golden golden;
  const RunTokenizer tokenizer = open_run_tokenizer(folder);
  std::vector<Ids> texts;
  const int32_t* ids = golden.ids.ptr<int32_t>();
  for (int64_t i = 0; i < golden.size(); ++i) {
    const Tokenizer& words = *tokenizer.tokenizer;
    texts.push_back(
        words.sequence_template().build(words.encode(golden.text(i)).ids, {.max_length = golden.max_length()}).ids);
    const int32_t length = golden.lengths.ptr<int32_t>()[i];
    ASSERT_EQ(texts.back(), Ids(ids, ids + length)) << golden.text(i);
    ids += length;
  }

  Encoder encoder(folder, GetParam());
  const std::vector<Vector> together = encoder.embed(texts);
  for (int64_t i = 0; i < golden.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const float* const expected = golden.embeddings.row<float>(i);
    EXPECT_LT(largest_difference(together[at], expected), kTolerance) << golden.text(i);
    EXPECT_LT(largest_difference(encoder.embed({texts[at]}).front(), expected), kTolerance)
        << "alone: " << golden.text(i);
  }
}

INSTANTIATE_TEST_SUITE_P(, EmbeddingTest, testing::ValuesIn(devices_of_build()),
                         [](const auto& test) { return name_of_device(test.param); });

}  // namespace
}  // namespace gradmill::test
