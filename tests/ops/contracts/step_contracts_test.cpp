// SPDX-License-Identifier: Apache-2.0
// Losses, the optimiser, first values and transfers.
#include <array>
#include <utility>

#include "op_contracts.h"
#include "ops/adamw.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/ema.h"
#include "ops/init.h"
#include "ops/label_loss.h"
#include "ops/sequence_sums.h"
#include "ops/transfer.h"

namespace gradmill::test {
namespace {

using Views = std::pair<TensorView, TensorView>;

TEST_F(OpContracts, Adamw) {
  constexpr int64_t kSize = 2 * kSegmentPadding;
  const AdamWArgs right{.master = fp32({kSize}),
                        .compute = bf16({kSize}),
                        .grads = fp32({kSize}),
                        .m = fp32({kSize}),
                        .v = fp32({kSize}),
                        .block_groups = int8({2}),
                        .end = kSize};
  expect_refused(adamw, right,
                 {{[](auto& args) { args.end = kSize + 1; }, "args.end <= args.master.numel()"},
                  {[](auto& args) { args.v = bf16({kSize}); }, "view->dtype == DType::fp32"},
                  {[](auto& args) { args.compute = bf16({kSize - 1}); }, "args.compute.shape == args.master.shape"},
                  {[](auto& args) { args.block_groups = int8({1}); }, "args.block_groups.numel() * kSegmentPadding"}});
}

TEST_F(OpContracts, PrepareUpdate) {
  expect_refused(prepare_update, fp32({512}),
                 {{[](auto& grads) {
                     grads = fp32({2, 256});
                   },
                   "grads.shape.rank() == 1"}});
}

TEST_F(OpContracts, CrossEntropy) {
  expect_refused(cross_entropy, CrossEntropyArgs{.logits = bf16({4, 9}), .targets = int32({4}), .losses = fp32({4})},
                 {{[](auto& args) { args.targets = int32({9}); }, "args.targets.numel() == args.logits.rows()"},
                  {[](auto& args) { args.losses = bf16({4}); }, "args.losses.dtype == DType::fp32"},
                  {[](auto& args) { args.weights = fp32({9}); }, "args.weights.numel() == args.logits.rows()"}});
}

TEST_F(OpContracts, AddLossSum) {
  expect_refused(add_loss_sum, fp32({4}), {{[](auto& losses) { losses = strided({2, 2}); }, "losses.contiguous()"}});
}

TEST_F(OpContracts, SequenceSums) {
  expect_refused(sequence_sums, SequenceSumsArgs{.values = fp32({9}), .cu = int32({4}), .sums = fp32({3})},
                 {{[](auto& args) { args.cu = int32({3}); }, "args.cu.numel() == args.sums.numel() + 1"},
                  {[](auto& args) { args.sums = bf16({3}); }, "args.sums.dtype == DType::fp32"}});
}

TEST_F(OpContracts, LabelLoss) {
  const LabelLossArgs right{
      .logits = fp32({4, 3}), .targets = int32({4}), .cu = int32({5}), .class_weights = fp32({3}), .losses = fp32({4})};
  expect_refused(label_loss, right,
                 {{[](auto& args) { args.targets = fp32({4}); }, "(labels == 1 ? DType::fp32 : DType::int32)"},
                  {[](auto& args) { args.cu = int32({4}); }, "args.cu.numel() == seqs + 1"},
                  {[](auto& args) { args.class_weights = fp32({4}); }, "args.class_weights.numel() == labels"}});
}

TEST_F(OpContracts, EmaUpdate) {
  expect_refused(ema_update, EmaArgs{.average = fp32({8}), .weights = fp32({8})},
                 {{[](auto& args) { args.weights = fp32({7}); }, "args.average.shape == args.weights.shape"},
                  {[](auto& args) { args.weights = bf16({8}); }, "args.average.dtype == args.weights.dtype"}});
}

TEST_F(OpContracts, Exchange) {
  expect_refused([](ExecContext& ctx, const Views& views) { exchange(ctx, views.first, views.second); },
                 Views{fp32({8}), fp32({8})},
                 {{[](Views& views) { views.second = fp32({9}); }, "a.shape == b.shape"},
                  {[](Views& views) { views.second = bf16({8}); }, "a.dtype == b.dtype"}});
}

TEST_F(OpContracts, InitValues) {
  expect_refused(init_values, InitArgs{.to = bf16({4, 6})},
                 {{[](auto& args) {
                     args.to = strided({4, 6});
                   },
                   "args.to.contiguous()"}});
}

// Transfers have no plan: they run, and must not be called on paper.
class Transfer {
 public:
  TensorView view() { return {values_.data(), DType::fp32, {2, 3}}; }
  TensorView strided_view() { return view().slice_cols(0, 2); }
  static void copy(ExecContext& ctx, const Views& views) { copy_on_device(ctx, views.first, views.second); }

 private:
  std::array<float, 6> values_{};
};

TEST_F(OpContracts, CopyOnDevice) {
  ctx_.dry = false;
  Transfer from, to;
  expect_refused(&Transfer::copy, Views{to.view(), from.view()},
                 {{[](Views& views) { views.second = views.second.slice_rows(0, 1); }, "to.bytes() == from.bytes()"},
                  {[](Views& views) { views.first = views.first.slice_cols(0, 2); }, "to.contiguous()"}});
}

TEST_F(OpContracts, CopyToDevice) {
  ctx_.dry = false;
  Transfer to;
  const auto copy = [](ExecContext& ctx, const TensorView& view) {
    const std::array<float, 6> host{};
    copy_to_device(ctx, view, host.data());
  };
  expect_refused(copy, to.view(),
                 {{[&](TensorView& view) { view = to.strided_view(); }, "to.contiguous()"},
                  {[&](TensorView&) { ctx_.dry = true; }, "!ctx.dry"}});
}

TEST_F(OpContracts, CopyToHost) {
  ctx_.dry = false;
  Transfer from;
  const auto copy = [](ExecContext& ctx, const TensorView& view) {
    std::array<float, 6> host{};
    copy_to_host(ctx, host.data(), view);
  };
  expect_refused(copy, from.view(),
                 {{[&](TensorView& view) { view = from.strided_view(); }, "from.contiguous()"},
                  {[&](TensorView&) { ctx_.dry = true; }, "!ctx.dry"}});
}

TEST_F(OpContracts, FillZero) {
  ctx_.dry = false;
  Transfer to;
  expect_refused(fill_zero, to.view(),
                 {{[&](TensorView& view) { view = to.strided_view(); }, "to.contiguous()"},
                  {[&](TensorView&) { ctx_.dry = true; }, "!ctx.dry"}});
}

}  // namespace
}  // namespace gradmill::test
