// SPDX-License-Identifier: Apache-2.0
#include "adapters/merge.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/error.h"
#include "cpu/gemm.h"
#include "ops/transfer.h"

namespace gradmill {
namespace {

// Turns W (rows, in) of one slice into W'.
void merge_slice(ExecContext& ctx, cpu::ThreadPool& pool, const Weights& weights, const AdaptedSlice& slice,
                 float* values, int64_t in) {
  const std::vector<float> a = weights.get(ctx, slice.a), b = weights.get(ctx, slice.b);
  const int64_t rows = slice.row_end - slice.row_begin;
  cpu::gemm(pool,
            {.m = rows,
             .n = in,
             .k = slice.rank,
             .a = b.data(),
             .lda = slice.rank,
             .b = a.data() + slice.rank_begin * in,
             .ldb = in,
             .c = values,
             .ldc = in,
             .alpha = slice.scale,
             .beta = 1},
            nullptr);
  if (slice.magnitude == kNoParam) return;
  const std::vector<float> magnitude = weights.get(ctx, slice.magnitude);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = values + r * in;
    double square = 0;
    for (int64_t c = 0; c < in; ++c) square += double(row[c]) * row[c];
    if (square == 0) continue;
    const auto gain = static_cast<float>(magnitude[static_cast<size_t>(r)] / std::sqrt(square));
    for (int64_t c = 0; c < in; ++c) row[c] *= gain;
  }
}

}  // namespace

std::vector<float> merged_values(ExecContext& ctx, const Weights& weights, ParamId id) {
  std::vector<float> values = weights.get(ctx, id);
  if (weights.adapters_merged()) return values;
  cpu::ThreadPool pool(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64));
  const int64_t in = weights.table().spec(id).cols;
  for (const AdaptedSlice& slice : weights.table().adapted_slices()) {
    if (slice.weight == id) merge_slice(ctx, pool, weights, slice, values.data() + slice.row_begin * in, in);
  }
  return values;
}

MergedAdapters::MergedAdapters(ExecContext& ctx, Weights& weights) : ctx_(ctx), weights_(weights) {
  assert(!weights.adapters_merged());
  const std::vector<AdaptedSlice>& slices = weights.table().adapted_slices();
  for (const AdaptedSlice& slice : slices) {
    if (weights.is_quantised(slice.weight)) {
      throw usage_error("adapters cannot be merged into a quantised base", "use model.load_in=bf16");
    }
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    const ParamId id = slices[i].weight;
    if (i > 0 && slices[i - 1].weight == id) continue;
    const TensorView view = weights[id];
    Original original{id, std::vector<std::byte>(view.bytes())};
    copy_to_host(ctx, original.bytes.data(), view);
    originals_.push_back(std::move(original));
    weights.set(ctx, id, merged_values(ctx, weights, id).data());
  }
  weights.set_adapters_merged(true);
}

MergedAdapters::~MergedAdapters() {
  for (const Original& original : originals_) copy_to_device(ctx_, weights_[original.id], original.bytes.data());
  weights_.set_adapters_merged(false);
}

}  // namespace gradmill
