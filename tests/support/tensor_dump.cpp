// SPDX-License-Identifier: Apache-2.0
#include "support/tensor_dump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace gradmill::test {
namespace {

// At most this many elements of a tensor are written, evenly spread; a hash covers all of them.
constexpr int64_t kMostElements = 1024;
// The value in a dump for bytes that no op has written.
constexpr auto kUnwritten = std::byte{0xff};

uint64_t hash_of(std::span<const std::byte> bytes) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash = bytes.size() * kFactor;
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 29;
  }
  return hash;
}

// Copies the tensor's contents, with kUnwritten for data that still has its initial value. Bytes are compared in groups
// of four, because a single byte may well be written with the value it had.
void copy_written(const TensorView& view, std::span<const std::byte> poison, std::vector<std::byte>& to) {
  constexpr size_t kLeast = 4;
  const size_t size = poison.size(), element = size_of(view.dtype), unit = element == 1 ? kLeast : element;
  const auto* const from = static_cast<const std::byte*>(view.data);
  to.assign(from, from + size);
  for (size_t at = 0; at < size; at += unit) {
    const size_t length = std::min(unit, size - at);
    if (std::memcmp(from + at, poison.data() + at, length) == 0) std::fill_n(to.begin() + long(at), length, kUnwritten);
  }
}

bool is_prime(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) return false;
  }
  return true;
}

// A prime, so that elements of all columns are written.
int64_t stride_of(int64_t numel) {
  int64_t stride = std::max<int64_t>(1, (numel + kMostElements - 1) / kMostElements);
  while (!is_prime(stride)) ++stride;
  return stride;
}

}  // namespace

std::unique_ptr<TensorDump> TensorDump::of_environment(const Arena& arena, OpObserver* inner) {
  const char* const path = std::getenv("GRADMILL_TEST_DUMP");
  return path == nullptr ? nullptr : std::make_unique<TensorDump>(path, arena, inner);
}

TensorDump::TensorDump(const char* path, const Arena& arena, OpObserver* inner)
    : arena_(arena), inner_(inner), file_(path, std::ios::binary | std::ios::app) {
  if (!file_) throw std::runtime_error(std::string("GRADMILL_TEST_DUMP: cannot write to ") + path);
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  file_ << 'T';
  write_text(std::string(test->test_suite_name()) + "." + test->name());
}

TensorDump::~TensorDump() {
  sweep(When::end, "");
  file_ << 'F';  // finished
}

void TensorDump::add(const TensorView& view, size_t begin) {
  forget_from(begin);
  const auto* const data = static_cast<const std::byte*>(view.data);
  std::vector<std::byte> poison(data, data + view.bytes());
  const uint64_t unwritten = hash_of(std::vector<std::byte>(poison.size(), kUnwritten));
  tensors_.push_back({view, begin, num_tensors_++, std::move(poison), unwritten});
}

void TensorDump::before(std::string_view op) {
  sweep(When::before, op);
  if (inner_ != nullptr) inner_->before(op);
}

void TensorDump::after(std::string_view op) {
  if (inner_ != nullptr) inner_->after(op);
  sweep(When::after, op);
}

void TensorDump::forget_from(size_t begin) {
  while (!tensors_.empty() && tensors_.back().begin >= begin) {
    file_ << 'R';
    write(tensors_.back().number);
    tensors_.pop_back();
  }
}

void TensorDump::sweep(When when, std::string_view op) {
  forget_from(arena_.used());
  write_event(when, op);
  for (Tensor& tensor : tensors_) {
    copy_written(tensor.view, tensor.poison, bytes_);
    const uint64_t hash = hash_of(bytes_);
    if (hash == tensor.hash) continue;
    tensor.hash = hash;
    write_tensor(tensor, bytes_);
  }
}

void TensorDump::write_event(When when, std::string_view op) {
  file_ << 'E';
  write(num_events_++);
  write(static_cast<uint8_t>(when));
  write_text(op);
  write_text(take_why_inexact());
}

void TensorDump::write_tensor(const Tensor& tensor, std::span<const std::byte> bytes) {
  const Shape& shape = tensor.view.shape;
  const int64_t numel = tensor.view.numel(), stride = stride_of(numel);
  const size_t element = size_of(tensor.view.dtype);
  file_ << 'V';
  write(tensor.number);
  write_text(name_of(tensor.view.dtype));
  write(static_cast<uint8_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) write(shape[axis]);
  write(tensor.hash);
  write(static_cast<uint32_t>(stride));
  for (int64_t n = 0; n < numel; n += stride) {
    file_.write(reinterpret_cast<const char*>(bytes.data()) + size_t(n) * element, long(element));
  }
}

void TensorDump::write_text(std::string_view text) {
  write(static_cast<uint16_t>(text.size()));
  file_.write(text.data(), long(text.size()));
}

}  // namespace gradmill::test
