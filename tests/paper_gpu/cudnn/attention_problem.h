// SPDX-License-Identifier: Apache-2.0
// Attention for tests of the paper cuDNN: memory on the paper GPU in the trainer's layout, and the expected results,
// computed naively in double precision.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "cuda/sdpa.h"

namespace gradmill::paper {

// GPU memory. It counts as unwritten until it is filled.
class DeviceArray {
 public:
  explicit DeviceArray(size_t bytes);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void fill(const void* values, size_t bytes);
  void read(void* values, size_t bytes) const;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

struct AttentionCase {
  const char* name;
  std::vector<int> lens;
  int64_t heads = 2, kv_heads = 2, head_dim = 64;
  int64_t left = -1, right = 0;
  bool ragged = false, deterministic = false;
  int64_t padding = 0;  // rows after the last sequence, if ragged
  DType dtype = DType::bf16;

  cuda::SdpaProblem problem() const;
};

const std::vector<AttentionCase>& attention_cases();

// In each row q, k and v are side by side, and so are their gradients. Results of padding rows are 0.
struct AttentionValues {
  std::vector<double> qkv, out, dout, dqkv;
  std::vector<double> lse;  // by row and head
};

// Random inputs that the type can represent, and the results.
AttentionValues reference(const AttentionCase& c);

// Inputs are written, results are not. Gradients are in a separate buffer.
class AttentionMemory {
 public:
  AttentionMemory(const AttentionCase& c, const AttentionValues& values);

  cuda::SdpaBuffers buffers(size_t workspace_bytes);
  AttentionValues read() const;  // the results, without padding rows
  const std::byte* out_row(int64_t row) const;

  DeviceArray qkv, out, dout, dqkv, lse, lens;

 private:
  const AttentionCase& c_;
  const cuda::SdpaProblem problem_;
  std::vector<std::unique_ptr<DeviceArray>> others_;
};

}  // namespace gradmill::paper
