// SPDX-License-Identifier: Apache-2.0
// Session: generates text token by token, with cached keys and values.
#include <algorithm>
#include <array>
#include <numeric>

#include "ops/convert.h"
#include "session/session.h"

namespace gradmill {
namespace {

std::span<const std::byte> bytes_of(std::span<const int32_t> values) { return std::as_bytes(values); }

}  // namespace

void Session::allocate_caches() {
  Pass pass = make_pass(generate_inputs_, false);
  caches_ = model_.make_caches(pass, options_.context);
}

void Session::extend_sequence_ops(int64_t rows) {
  const ArenaScope scope(ctx_.scratch);
  Pass pass = make_pass(generate_inputs_, false);
  pass.seq.positions = pass.seq.positions.slice_rows(0, rows);
  const TensorView out = options_.dtype == DType::fp32 ? logits_ : pass.scratch(logits_.shape, "narrow logits");
  model_.logits(pass, {.tokens = generate_inputs_.tokens.slice_rows(0, rows)}, rows - 1, rows, out, caches_);
  if (options_.dtype != DType::fp32) convert(ctx_, {.from = out, .to = logits_});
}

std::span<const float> Session::extend_sequence() {
  enter(Phase::generate);
  const auto fresh = std::span(sequence_).subspan(num_cached_);
  const auto cached = static_cast<int32_t>(num_cached_), rows = static_cast<int32_t>(fresh.size());
  const SeqLayout& seq = generate_inputs_.seq;
  staging_.resize(fresh.size());
  std::iota(staging_.begin(), staging_.end(), cached);
  runtime_->upload(generate_inputs_.tokens.data, bytes_of(fresh));
  runtime_->upload(seq.positions.data, bytes_of(staging_));
  runtime_->upload(seq.cu_q.data, bytes_of(std::array{0, rows}));
  runtime_->upload(seq.cu_kv.data, bytes_of(std::array{0, cached + rows}));
  extend_sequence_ops(rows);
  num_cached_ = sequence_.size();
  next_logits_ = read(logits_);
  return next_logits_;
}

std::span<const float> Session::start_generation(std::span<const int32_t> prompt) {
  if (model_.spec().head != HeadKind::causal_lm) {
    throw usage_error("the model cannot generate text", "use a causal language model");
  }
  if (prompt.empty()) throw usage_error("the prompt has no tokens", "give at least one token to continue from");
  const auto last = prompt.last(std::min(prompt.size(), static_cast<size_t>(options_.context)));
  sequence_.assign(last.begin(), last.end());
  num_cached_ = 0;
  return extend_sequence();
}

std::span<const float> Session::continue_generation(int32_t token) {
  assert(!sequence_.empty());
  sequence_.push_back(token);
  if (std::ssize(sequence_) > options_.context) {
    sequence_.erase(sequence_.begin(), sequence_.end() - std::max<int64_t>(1, options_.context / 2));
    num_cached_ = 0;
  }
  return extend_sequence();
}

}  // namespace gradmill
