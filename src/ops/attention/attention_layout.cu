// SPDX-License-Identifier: Apache-2.0
// These kernels touch a few kilobytes each, so the cost is the launch.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "ops/attention/attention_layout.h"

namespace gradmill {
namespace {

constexpr int kThreads = 256;

__global__ void ragged_tables_kernel(const int32_t* cu, int64_t seqs, const __grid_constant__ RaggedTables tables) {
  const int64_t seq = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (seq > seqs) return;
  const int32_t begin = cu[seq];
  if (seq < seqs) tables.lens[seq] = cu[seq + 1] - begin;
  for (int i = 0; i < tables.count; ++i) {
    const RaggedTables::Offsets& table = tables.offsets[i];
    table.values[seq] = begin * table.stride;
  }
}

struct StridedRows {
  std::byte* data;
  int64_t bytes, stride_bytes;  // of a row
};
struct PaddingArgs {
  const int32_t* begin;  // the first row of padding
  int64_t rows;
  StridedRows tensors[3];
};

// Unit is what a thread writes at a time; the row size is a multiple of it.
template <class Unit>
__global__ void clear_padding_kernel(const __grid_constant__ PaddingArgs args) {
  const StridedRows& tensor = args.tensors[blockIdx.y];
  const int64_t units = tensor.bytes / static_cast<int64_t>(sizeof(Unit));
  for (int64_t row = *args.begin + blockIdx.x; row < args.rows; row += gridDim.x) {
    Unit* to = reinterpret_cast<Unit*>(tensor.data + row * tensor.stride_bytes);
    for (int64_t i = threadIdx.x; i < units; i += kThreads) to[i] = Unit{};
  }
}

}  // namespace

void fill_ragged_tables(ExecContext& ctx, const SeqLayout& seq, const RaggedTables& tables) {
  const auto blocks = static_cast<unsigned>(seq.max_seqs / kThreads + 1);
  cuda::launch({blocks, kThreads, cuda::stream_of(ctx)}, ragged_tables_kernel, seq.cu_q.ptr<int32_t>(), seq.max_seqs,
               tables);
}

void clear_padding(ExecContext& ctx, const SeqLayout& seq, std::initializer_list<TensorView> tensors) {
  PaddingArgs args{.begin = seq.cu_q.ptr<int32_t>(), .rows = tensors.begin()->rows(), .tensors = {}};
  args.begin += seq.max_seqs;
  const int64_t most = args.rows - (seq.dense ? seq.max_seqs * seq.max_len : 0);
  if (most <= 0) return;
  bool wide = true;
  unsigned count = 0;
  for (const TensorView& tensor : tensors) {
    const auto size = static_cast<int64_t>(size_of(tensor.dtype));
    args.tensors[count++] = {static_cast<std::byte*>(tensor.data), tensor.cols() * size, tensor.row_stride * size};
    wide = wide && tensor.cols() * size % 16 == 0 && tensor.row_stride * size % 16 == 0 &&
           reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0;
  }
  // One block per row, as many as run at once. If there is little padding, most blocks have nothing to do.
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(most, ctx.device.num_units));
  const cuda::LaunchConfig config({blocks, count}, kThreads, cuda::stream_of(ctx));
  if (wide) {
    cuda::launch(config, clear_padding_kernel<uint4>, args);
  } else {
    cuda::launch(config, clear_padding_kernel<uint16_t>, args);
  }
}

}  // namespace gradmill
