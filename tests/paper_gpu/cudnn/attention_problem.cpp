// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace gradmill::paper {
namespace {

constexpr int64_t kBytes = 2;  // per element

double rounded(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::bf16 ? float(Bf16(narrow)) : float(Fp16(narrow));
}

std::vector<uint16_t> to_bits(const std::vector<double>& values, DType dtype) {
  std::vector<uint16_t> bits;
  for (double value : values) {
    const auto narrow = static_cast<float>(value);
    bits.push_back(dtype == DType::bf16 ? Bf16(narrow).bits : Fp16(narrow).bits);
  }
  return bits;
}

double from_bits(uint16_t bits, DType dtype) {
  if (dtype == DType::fp16) return fp16_bits_to_float(bits);
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

std::vector<double> read_narrow(const DeviceArray& array, int64_t count, DType dtype) {
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  array.read(bits.data(), bits.size() * sizeof(uint16_t));
  std::vector<double> values;
  for (uint16_t each : bits) values.push_back(from_bits(each, dtype));
  return values;
}

// One head of one sequence, by columns of the packed rows.
class HeadReference {
 public:
  HeadReference(const cuda::SdpaProblem& problem, AttentionValues& values, int64_t begin, int64_t length, int64_t head)
      : p_(problem), v_(values), begin_(begin), length_(length), head_(head) {
    const int64_t group = p_.heads / p_.kv_heads;
    q_ = head * p_.head_dim;
    k_ = (p_.heads + head / group) * p_.head_dim;
    key_value_ = (p_.heads + p_.kv_heads + head / group) * p_.head_dim;
  }

  void run() {
    for (int64_t row = 0; row < length_; ++row) run_row(row);
  }

 private:
  double& packed(std::vector<double>& all, int64_t row, int64_t col) const {
    return all[static_cast<size_t>((begin_ + row) * p_.q_stride + col)];
  }
  size_t out_at(int64_t row, int64_t d) const {
    return static_cast<size_t>((begin_ + row) * p_.out_stride + head_ * p_.head_dim + d);
  }

  void run_row(int64_t row) {
    const int64_t first = p_.left < 0 ? 0 : std::max<int64_t>(0, row - p_.left);
    const int64_t last = p_.right < 0 ? length_ - 1 : std::min(length_ - 1, row + p_.right);
    std::vector<double> weights;
    double sum = 0, dout_out = 0;
    for (int64_t key = first; key <= last; ++key) {
      double score = 0;
      for (int64_t d = 0; d < p_.head_dim; ++d) score += packed(v_.qkv, row, q_ + d) * packed(v_.qkv, key, k_ + d);
      weights.push_back(std::exp(score * double(p_.scale)));
      sum += weights.back();
    }
    for (double& weight : weights) weight /= sum;
    v_.lse[static_cast<size_t>((begin_ + row) * p_.heads + head_)] = std::log(sum);
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      double& out = v_.out[out_at(row, d)];
      for (int64_t key = first; key <= last; ++key) {
        out += weights[static_cast<size_t>(key - first)] * packed(v_.qkv, key, key_value_ + d);
      }
      dout_out += out * v_.dout[out_at(row, d)];
    }
    for (int64_t key = first; key <= last; ++key) {
      backward(row, key, weights[static_cast<size_t>(key - first)], dout_out);
    }
  }

  void backward(int64_t row, int64_t key, double weight, double dout_out) {
    double dweight = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      const double dout = v_.dout[out_at(row, d)];
      dweight += dout * packed(v_.qkv, key, key_value_ + d);
      packed(v_.dqkv, key, key_value_ + d) += weight * dout;
    }
    const double dscore = weight * (dweight - dout_out) * double(p_.scale);
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      packed(v_.dqkv, row, q_ + d) += dscore * packed(v_.qkv, key, k_ + d);
      packed(v_.dqkv, key, k_ + d) += dscore * packed(v_.qkv, row, q_ + d);
    }
  }

  const cuda::SdpaProblem& p_;
  AttentionValues& v_;
  int64_t begin_, length_, head_, q_, k_, key_value_;
};

// Uses a separate stream, and waits for it.
void transfer(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMemcpyAsync(to, from, bytes, kind, stream);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
}

}  // namespace

DeviceArray::DeviceArray(size_t bytes) { cudaMalloc(reinterpret_cast<void**>(&data_), std::max<size_t>(bytes, 1)); }
DeviceArray::~DeviceArray() { cudaFree(data_); }
void DeviceArray::fill(const void* values, size_t bytes) { transfer(data_, values, bytes, cudaMemcpyHostToDevice); }
void DeviceArray::read(void* values, size_t bytes) const { transfer(values, data_, bytes, cudaMemcpyDeviceToHost); }

cuda::SdpaProblem AttentionCase::problem() const {
  cuda::SdpaProblem p;
  p.dtype = dtype;
  p.seqs = static_cast<int64_t>(lens.size());
  p.len = *std::ranges::max_element(lens);
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = head_dim;
  for (int length : lens) p.rows += length;
  p.rows += padding;
  p.ragged = ragged;
  p.q_stride = p.k_stride = p.v_stride = p.dq_stride = p.dk_stride = p.dv_stride = (heads + 2 * kv_heads) * head_dim;
  p.out_stride = p.dout_stride = heads * head_dim;
  p.left = left;
  p.right = right;
  p.scale = static_cast<float>(1 / std::sqrt(double(head_dim)));
  p.deterministic = deterministic;
  return p;
}

AttentionValues reference(const AttentionCase& c) {
  const cuda::SdpaProblem p = c.problem();
  AttentionValues values;
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> spread(-1, 1);
  const auto random = [&](int64_t count) {
    std::vector<double> all(static_cast<size_t>(count));
    for (double& each : all) each = rounded(spread(generator), c.dtype);
    return all;
  };
  values.qkv = random(p.rows * p.q_stride);
  values.dout = random(p.rows * p.out_stride);
  values.out.resize(values.dout.size());
  values.dqkv.resize(values.qkv.size());
  values.lse.resize(static_cast<size_t>(p.rows * p.heads));
  int64_t begin = 0;
  for (int length : c.lens) {
    for (int64_t head = 0; head < p.heads; ++head) HeadReference(p, values, begin, length, head).run();
    begin += length;
  }
  return values;
}

AttentionMemory::AttentionMemory(const AttentionCase& c, const AttentionValues& values)
    : qkv(values.qkv.size() * kBytes),
      out(values.out.size() * kBytes),
      dout(values.dout.size() * kBytes),
      dqkv(values.qkv.size() * kBytes),
      lse(values.lse.size() * sizeof(float)),
      lens(c.lens.size() * sizeof(int32_t)),
      c_(c),
      problem_(c.problem()) {
  const auto fill = [&](DeviceArray& array, const std::vector<double>& from) {
    const std::vector<uint16_t> bits = to_bits(from, c.dtype);
    array.fill(bits.data(), bits.size() * sizeof(uint16_t));
  };
  fill(qkv, values.qkv);
  fill(dout, values.dout);
  lens.fill(c.lens.data(), c.lens.size() * sizeof(int32_t));
}

cuda::SdpaBuffers AttentionMemory::buffers(size_t workspace_bytes) {
  const int64_t k = problem_.heads * problem_.head_dim * kBytes;
  const int64_t v = k + problem_.kv_heads * problem_.head_dim * kBytes;
  const auto offsets = [&](int64_t stride) {
    std::vector<int64_t> all = {0};
    for (int length : c_.lens) all.push_back(all.back() + length * stride);
    others_.push_back(std::make_unique<DeviceArray>(all.size() * sizeof(int64_t)));
    others_.back()->fill(all.data(), all.size() * sizeof(int64_t));
    return reinterpret_cast<int64_t*>(others_.back()->data());
  };
  cuda::SdpaBuffers b;
  b.q = qkv.data(), b.k = qkv.data() + k, b.v = qkv.data() + v;
  b.dq = dqkv.data(), b.dk = dqkv.data() + k, b.dv = dqkv.data() + v;
  b.out = out.data(), b.dout = dout.data(), b.lse = lse.data();
  b.lens = reinterpret_cast<int32_t*>(lens.data());
  const cuda::SdpaProblem& p = problem_;
  b.offsets = {.q = offsets(p.q_stride),
               .k = offsets(p.k_stride),
               .v = offsets(p.v_stride),
               .out = offsets(p.out_stride),
               .lse = offsets(p.heads),
               .dout = offsets(p.dout_stride),
               .dq = offsets(p.dq_stride),
               .dk = offsets(p.dk_stride),
               .dv = offsets(p.dv_stride)};
  others_.push_back(std::make_unique<DeviceArray>(workspace_bytes));
  b.workspace = others_.back()->data();
  return b;
}

AttentionValues AttentionMemory::read() const {
  AttentionValues values;
  const int64_t rows = problem_.rows - c_.padding;
  values.out = read_narrow(out, rows * problem_.out_stride, c_.dtype);
  values.dqkv = read_narrow(dqkv, rows * problem_.q_stride, c_.dtype);
  std::vector<float> stats(static_cast<size_t>(rows * problem_.heads));
  lse.read(stats.data(), stats.size() * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t head = 0; head < problem_.heads; ++head) {
      const int64_t seq = row / problem_.len, in_seq = row % problem_.len;
      const int64_t at =
          problem_.ragged ? row * problem_.heads + head : (seq * problem_.heads + head) * problem_.len + in_seq;
      values.lse.push_back(double(stats[static_cast<size_t>(at)]));
    }
  }
  return values;
}

const std::byte* AttentionMemory::out_row(int64_t row) const { return out.data() + row * problem_.out_stride * kBytes; }

}  // namespace gradmill::paper
