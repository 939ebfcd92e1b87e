// SPDX-License-Identifier: Apache-2.0
// Generation with cached keys and values: the same logits as a full forward, whatever happens in between.
#include "session/generator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 37;

// The weights are large enough to make attention selective.
TransformerSpec gpt2(int64_t context) {
  TransformerSpec spec = gpt2_spec(kVocab, 2, 4, 32, context);
  spec.init_std = 0.25f;
  return spec;
}
TransformerSpec qwen3(int64_t context) {
  TransformerSpec spec = qwen3_spec(kVocab, 2, 4, 2, 32, 96, context);
  spec.init_std = 0.25f;
  return spec;
}
TransformerSpec rope_alone(int64_t context) {
  TransformerSpec spec = qwen3(context);
  spec.qk_norm = false;
  return spec;
}
TransformerSpec sliding(int64_t context) {
  TransformerSpec spec = qwen3(context);
  spec.window = 5;
  return spec;
}

SessionOptions options_for(const Transformer& model, DType dtype = DType::fp32, int num_threads = 2) {
  SessionOptions options;
  options.num_threads = num_threads;
  options.dtype = dtype;
  options.context = model.spec().max_positions;
  options.seed = 3;
  options.poison = true;
  return options;
}

std::vector<int32_t> tokens(int64_t count) {
  std::vector<int32_t> ids;
  for (float value : random_values(count, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
  return ids;
}

std::vector<float> copy(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

// The logits of every row of one window, computed by the forward for evaluation.
class FullForward {
 public:
  FullForward() : memory_(size_t{64} << 20), pool_(1) {
    ctx_.device = host_cpu();
    ctx_.pool = &pool_;
    ctx_.scalars = &scalars_;
    const std::span<std::byte> bytes = memory_.bytes();
    ctx_.persistent.attach(bytes.first(bytes.size() / 2));
    ctx_.scratch.attach(bytes.subspan(bytes.size() / 2));
  }

  std::vector<std::vector<float>> operator()(Session& session, const Transformer& model,
                                             std::span<const int32_t> window) {
    const auto rows = static_cast<int64_t>(window.size());
    const TensorView ids = ints(window), positions = ints(std::vector<int32_t>(window.size()));
    std::iota(positions.ptr<int32_t>(), positions.ptr<int32_t>() + rows, 0);
    const TensorView offsets = ints(std::vector<int32_t>{0, static_cast<int32_t>(rows)});
    Pass pass{.ctx = ctx_,
              .weights = session.weights(),
              .seq = {.positions = positions, .cu_q = offsets, .cu_kv = offsets, .max_seqs = 1, .max_len = rows},
              .tables = model.make_position_tables(ctx_, model.spec().max_positions)};
    const DType dtype = session.weights().dtype();
    const TensorView out = ctx_.alloc(ctx_.persistent, {rows, model.spec().vocab}, dtype, "logits");
    model.logits(pass, {.tokens = ids}, 0, rows, out);
    std::vector<std::vector<float>> logits(window.size());
    for (int64_t i = 0; i < out.numel(); ++i) {
      logits[static_cast<size_t>(i / out.cols())].push_back(read(out, i));
    }
    return logits;
  }

 private:
  TensorView ints(std::span<const int32_t> values) {
    const TensorView view = ctx_.alloc(ctx_.persistent, {std::ssize(values)}, DType::int32, "ints");
    std::copy(values.begin(), values.end(), view.ptr<int32_t>());
    return view;
  }
  static float read(const TensorView& view, int64_t index) {
    if (view.dtype == DType::bf16) return static_cast<float>(view.ptr<Bf16>()[index]);
    if (view.dtype == DType::fp16) return static_cast<float>(view.ptr<Fp16>()[index]);
    return view.ptr<float>()[index];
  }

  Storage memory_;
  cpu::ThreadPool pool_;
  StepScalars scalars_;
  ExecContext ctx_;
};

struct CacheCase {
  const char* name;
  TransformerSpec (*spec)(int64_t context);
  DType dtype = DType::fp32;
  double tolerance = 1e-5;  // narrow types: a difference in the last bit of fp32 may change the rounding
};

class CacheTest : public testing::TestWithParam<CacheCase> {};

// A context of several key tiles, and one shorter than a tile.
TEST_P(CacheTest, LogitsEqualAFullForwardAtEveryPosition) {
  for (int64_t context : {20, 150}) {
    const Transformer model(GetParam().spec(context));
    Session session(model, options_for(model, GetParam().dtype));
    const std::vector<int32_t> ids = tokens(context);
    const std::vector<std::vector<float>> expected = FullForward()(session, model, ids);
    for (int64_t prompt : {int64_t{1}, int64_t{7}, int64_t{19}, context}) {
      auto end = static_cast<size_t>(prompt);
      std::vector<float> logits = copy(session.start_generation(std::span(ids).first(end)));
      while (true) {
        expect_close(logits, expected[end - 1], GetParam().tolerance,
                     fmt::format("prompt of {}, position {} of {}", prompt, end, context));
        if (end == ids.size()) break;
        logits = copy(session.continue_generation(ids[end++]));
      }
    }
  }
}

TEST_P(CacheTest, TextDoesNotDependOnThreads) {
  const Transformer model(GetParam().spec(20));
  const GenerateOptions options{.max_tokens = 50, .sampler = {.temperature = 0.9, .top_p = 0.95, .seed = 5}};
  std::vector<int32_t> expected_text;
  std::vector<float> expected_logits;
  for (int threads : {1, 2, 3, 7}) {
    Session session(model, options_for(model, GetParam().dtype, threads));
    const std::vector<int32_t> text = generate(session, tokens(3), options);
    const std::vector<float> logits = copy(session.continue_generation(text.back()));
    if (threads == 1) {
      expected_text = text;
      expected_logits = logits;
    }
    EXPECT_EQ(text, expected_text) << threads;
    expect_same_bits(logits, expected_logits, fmt::format("{} threads", threads));
  }
}

// Another phase reuses the cache's memory, and training changes the weights.
TEST_P(CacheTest, ContinuesAfterOtherPhases) {
  const Transformer model(GetParam().spec(20));
  SessionOptions options = options_for(model, GetParam().dtype);
  options.ema_decay = 0.5f;
  Session session(model, options), undisturbed(model, options);
  const std::vector<int32_t> ids = tokens(20), data = tokens(100);
  const MicroBatch batch = eval_batches(data, 1, 20, 0).front();
  const auto prompt = std::span(ids).first(9);
  session.start_generation(prompt);
  undisturbed.start_generation(prompt);
  session.eval_micro(batch);
  expect_close(session.continue_generation(ids[9]), copy(undisturbed.continue_generation(ids[9])), GetParam().tolerance,
               "after an evaluation");
  expect_close(session.continue_generation(ids[10]), copy(undisturbed.continue_generation(ids[10])),
               GetParam().tolerance, "and the token after it");

  const auto expect_all_again = [&](size_t count, const std::string& what) {
    const std::vector<float> continued = copy(session.continue_generation(ids[count - 1]));
    expect_same_bits(continued, copy(session.start_generation(std::span(ids).first(count))), what);
    return continued;
  };
  session.begin_step(0, 1e-2f, batch.num_targets);
  session.train_micro(batch);
  session.end_step();
  const std::vector<float> trained = expect_all_again(12, "after training");
  EXPECT_NE(trained, copy(undisturbed.continue_generation(ids[11])));
  session.exchange_average();
  expect_all_again(13, "with averaged weights");
}

TEST_P(CacheTest, AFullContextStartsOverFromItsLastHalf) {
  for (int64_t context : {1, 2, 7, 20}) {
    const Transformer model(GetParam().spec(context));
    Session session(model, options_for(model, GetParam().dtype)), fresh(model, options_for(model, GetParam().dtype));
    const std::vector<int32_t> ids = tokens(3 * context + 1);
    const auto half = static_cast<size_t>(std::max<int64_t>(1, context / 2));
    session.start_generation(std::span(ids).first(1));
    size_t held = 1;
    for (size_t i = 1; i < ids.size(); ++i) {
      const std::vector<float> logits = copy(session.continue_generation(ids[i]));
      held = held == static_cast<size_t>(context) ? half : held + 1;
      const auto window = std::span(ids).subspan(i + 1 - held, held);
      expect_close(logits, copy(fresh.start_generation(window)), GetParam().tolerance,
                   fmt::format("token {} of a context of {}", i, context));
    }
  }
}

TEST_P(CacheTest, OnlyTheEndOfALongPromptCounts) {
  const Transformer model(GetParam().spec(20));
  Session session(model, options_for(model, GetParam().dtype));
  const std::vector<int32_t> ids = tokens(65);
  const std::vector<float> expected = copy(session.start_generation(std::span(ids).last(20)));
  expect_same_bits(copy(session.start_generation(ids)), expected, "a long prompt");
}

// In the compute dtype, one pair per layer, as wide as the key heads.
TEST_P(CacheTest, ThePlanShowsTheCaches) {
  const Transformer model(GetParam().spec(20));
  const SessionOptions options = options_for(model, GetParam().dtype);
  const ArenaPlan saved = Session::plan(model, options).phase(Phase::generate).saved;
  const size_t width = static_cast<size_t>(model.spec().kv_heads * model.spec().head_dim);
  const size_t bytes = align_up(20 * width * size_of(GetParam().dtype));
  std::vector<std::string> owners;
  for (const OwnerBytes& owner : saved.owners) {
    owners.push_back(owner.owner);
    EXPECT_EQ(owner.bytes, bytes) << owner.owner;
  }
  EXPECT_EQ(owners, (std::vector<std::string>{"layers.0.attention.cached k", "layers.0.attention.cached v",
                                              "layers.1.attention.cached k", "layers.1.attention.cached v"}));
  EXPECT_EQ(saved.bytes, 4 * bytes);
}

// The longest prompt uses exactly the planned memory, and nothing uses more.
TEST_P(CacheTest, ThePlanEqualsUseToTheByte) {
  const Transformer model(GetParam().spec(20));
  Session session(model, options_for(model, GetParam().dtype));
  const std::vector<int32_t> ids = tokens(20);
  session.start_generation(ids);
  for (int32_t token : ids) session.continue_generation(token);
  const PhasePlan& plan = session.memory_plan().phase(Phase::generate);
  const auto& use = session.arena_use().phases[static_cast<size_t>(Phase::generate)];
  EXPECT_EQ(use.saved, plan.saved.bytes);
  EXPECT_EQ(use.scratch, plan.scratch.bytes);
}

INSTANTIATE_TEST_SUITE_P(Models, CacheTest,
                         testing::Values(CacheCase{"gpt2", gpt2}, CacheCase{"qwen3", qwen3},
                                         CacheCase{"rope_alone", rope_alone}, CacheCase{"sliding", sliding},
                                         CacheCase{"gpt2_bf16", gpt2, DType::bf16, 2e-2},
                                         CacheCase{"qwen3_bf16", qwen3, DType::bf16, 2e-2},
                                         CacheCase{"qwen3_fp16", qwen3, DType::fp16, 3e-3}),
                         [](const auto& test) { return test.param.name; });

class GeneratorTest : public testing::Test {
 protected:
  GeneratorTest() : model_(gpt2(16)), session_(model_, options_for(model_)) {}

  Transformer model_;
  Session session_;
};

TEST_F(GeneratorTest, StreamsAndStopsWhenTold) {
  const std::vector<int32_t> prompt = tokens(4);
  const GenerateOptions options{.max_tokens = 12, .sampler = {.seed = 8}};
  const std::vector<int32_t> whole = generate(session_, prompt, options);
  ASSERT_EQ(whole.size(), 12u);
  std::vector<int32_t> seen;
  const std::vector<int32_t> stopped = generate(session_, prompt, options, [&](int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  });
  EXPECT_EQ(stopped, std::vector<int32_t>(whole.begin(), whole.begin() + 5));
  EXPECT_EQ(seen, stopped);
  EXPECT_TRUE(generate(session_, prompt, {.max_tokens = 0, .sampler = {}}).empty());
}

TEST_F(GeneratorTest, FollowsTheLogits) {
  const std::vector<int32_t> prompt = tokens(4);
  const GenerateOptions greedy{.max_tokens = 10, .sampler = {.temperature = 0}};
  const std::vector<int32_t> text = generate(session_, prompt, greedy);
  std::vector<int32_t> all = prompt;
  for (int32_t token : text) {
    const std::span<const float> logits = session_.start_generation(all);
    EXPECT_EQ(token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    all.push_back(token);
  }
  GenerateOptions options{.max_tokens = 40, .sampler = {.seed = 1}};
  const std::vector<int32_t> drawn = generate(session_, prompt, options);
  EXPECT_EQ(generate(session_, prompt, options), drawn);
  options.sampler.seed = 2;
  EXPECT_NE(generate(session_, prompt, options), drawn);
}

// A model may have more rows than its tokenizer has tokens.
TEST_F(GeneratorTest, DrawsOnlyIdsThatThereAre) {
  const std::vector<int32_t> prompt = tokens(4);
  constexpr int64_t kIds = 5;
  for (const double temperature : {0.0, 5.0}) {
    GenerateOptions options{.max_tokens = 40, .sampler = {.temperature = temperature, .seed = 1}};
    const std::vector<int32_t> free = generate(session_, prompt, options);
    ASSERT_GE(*std::max_element(free.begin(), free.end()), kIds) << "nothing to leave out";
    options.num_ids = kIds;
    const std::vector<int32_t> drawn = generate(session_, prompt, options);
    EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), kIds);
  }
}

TEST_F(GeneratorTest, AnEmptyPromptIsAUsersMistake) {
  try {
    generate(session_, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace gradmill::test
