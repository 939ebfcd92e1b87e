// SPDX-License-Identifier: Apache-2.0
#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/convert.h"
#include "ops/ema.h"
#include "ops/find_non_finite.h"

namespace gradmill {
namespace {

void copy_in(const TensorView& to, std::span<const int32_t> from) {
  assert(to.numel() == static_cast<int64_t>(from.size()));
  std::copy(from.begin(), from.end(), to.ptr<int32_t>());
}

}  // namespace

Session::Session(const Transformer& model, const SessionOptions& options, OnPaper) : model_(model), options_(options) {
  ctx_.device = options.device;
  ctx_.dry = true;
  allocate_persistent();
}

MemoryPlan Session::plan(const Transformer& model, const SessionOptions& options) {
  return Session(model, options, OnPaper{}).run_on_paper();
}

Session::Session(const Transformer& model, const SessionOptions& options)
    : model_(model), options_(options), plan_(plan(model, options)) {
  if (options.device.kind != DeviceKind::cpu) {
    throw usage_error(fmt::format("this build cannot run on {}", options.device.title),
                      "use the cpu device, or plan for the GPU with 'gradmill plan'");
  }
  ctx_.device = options.device;
  pool_ = std::make_unique<cpu::ThreadPool>(options.num_threads);
  ctx_.pool = pool_.get();
  slab_ = Storage(plan_.slab_bytes());
  ctx_.persistent.attach(slab_.bytes().first(plan_.persistent.bytes));
  for (Arena* arena : {&ctx_.persistent, &ctx_.saved, &ctx_.scratch}) arena->set_poison(options.poison ? poison_host : nullptr);
  allocate_persistent();
  weights_->initialise(ctx_, options.seed);
  if (has_average()) std::memcpy(average_.data, weights_->flat_master().data, average_.bytes());
}

void Session::allocate_persistent() {
  const TensorView scalars =
      ctx_.alloc(ctx_.persistent, {static_cast<int64_t>(sizeof(StepScalars))}, DType::int8, "step scalars");
  weights_.emplace(ctx_, model_.params(), options_.dtype);
  grads_.emplace(ctx_, model_.params());
  optimizer_.emplace(ctx_, model_.params(), options_.adamw);
  if (options_.ema_decay > 0) {
    average_ = ctx_.alloc(ctx_.persistent, {model_.params().flat_size()}, DType::fp32, "averaged weights");
  }
  rope_table_ = model_.make_rope_table(ctx_);
  train_inputs_ = allocate_inputs("train inputs", options_.train_seqs);
  eval_inputs_ = allocate_inputs("eval inputs", options_.eval_seqs);
  generate_inputs_ = allocate_inputs("generate inputs", 1);
  generate_inputs_.seq.cu_kv = ctx_.alloc(ctx_.persistent, {2}, DType::int32, "generate inputs.key offsets");
  logits_ = ctx_.alloc(ctx_.persistent, {1, model_.spec().vocab}, DType::fp32, "next logits");
  if (ctx_.dry) return;
  ctx_.scalars = new (scalars.data) StepScalars;
  ctx_.scalars->dropout = options_.dropout;
  ctx_.scalars->seed = options_.seed;
  optimizer_->set_scalars(*ctx_.scalars);
}

Session::Inputs Session::allocate_inputs(std::string_view name, int64_t seqs) {
  const NameScope scope(ctx_, name);
  const int64_t rows = token_capacity(seqs * options_.context);
  const auto ints = [&](int64_t count, std::string_view what) {
    return ctx_.alloc(ctx_.persistent, {count}, DType::int32, what);
  };
  Inputs inputs{.tokens = ints(rows, "tokens"), .targets = ints(rows, "targets"), .seq = {}};
  inputs.seq.positions = ints(rows, "positions");
  inputs.seq.cu_q = inputs.seq.cu_kv = ints(seqs + 1, "sequence offsets");
  inputs.seq.max_seqs = seqs;
  inputs.seq.max_len = options_.context;
  return inputs;
}

MemoryPlan Session::run_on_paper() {
  MemoryPlan plan;
  plan.device = options_.device;
  plan.persistent = {ctx_.persistent.high_water(), ctx_.persistent.owners_at_peak()};
  const auto run = [&](Phase phase, auto&& ops) {
    PhasePlan& result = plan.phases[static_cast<size_t>(phase)];
    ctx_.saved = Arena("saved");
    ctx_.scratch = Arena("scratch");
    ctx_.ledger = &result.ledger;
    ops();
    result.saved = {ctx_.saved.high_water(), ctx_.saved.owners_at_peak()};
    result.scratch = {ctx_.scratch.high_water(), ctx_.scratch.owners_at_peak()};
  };
  run(Phase::train, [&] {
    grads_->begin_step();
    train_step_ops();
    update_ops();
  });
  run(Phase::eval, [&] {
    Pass pass = make_pass(eval_inputs_, false);
    model_.evaluate(pass, eval_inputs_.tokens, eval_inputs_.targets);
  });
  run(Phase::diagnose, [&] { find_non_finite_activation(); });
  run(Phase::generate, [&] {
    allocate_caches();
    extend_sequence_ops(options_.context);
  });
  return plan;
}

void Session::enter(Phase phase) {
  if (ctx_.dry || phase_ == phase) return;
  use_ = arena_use();
  const PhasePlan& plan = plan_.phase(phase);
  const std::span<std::byte> region = slab_.bytes().subspan(plan_.persistent.bytes);
  ctx_.saved.attach(region.first(plan.saved.bytes));
  ctx_.scratch.attach(region.subspan(plan.saved.bytes, plan.scratch.bytes));
  phase_ = phase;
  num_cached_ = 0;
  if (phase == Phase::generate) allocate_caches();
}

Session::ArenaUse Session::arena_use() const {
  ArenaUse use = use_;
  use.persistent = ctx_.persistent.high_water();
  if (phase_) {
    auto& now = use.phases[static_cast<size_t>(*phase_)];
    now.saved = std::max(now.saved, ctx_.saved.high_water());
    now.scratch = std::max(now.scratch, ctx_.scratch.high_water());
  }
  return use;
}

void Session::upload(const Inputs& inputs, const MicroBatch& batch) {
  copy_in(inputs.tokens, batch.tokens);
  copy_in(inputs.targets, batch.targets);
  copy_in(inputs.seq.positions, batch.positions);
  copy_in(inputs.seq.cu_q, batch.cu_seqlens);
}

Pass Session::make_pass(const Inputs& inputs, bool train) {
  return {.ctx = ctx_,
          .weights = *weights_,
          .grads = train ? &*grads_ : nullptr,
          .seq = inputs.seq,
          .policy = train ? options_.policy : SavePolicy::forward_only(),
          .rope_table = rope_table_};
}

void Session::begin_step(int64_t step, float lr, int64_t num_targets) {
  StepScalars& scalars = *ctx_.scalars;
  scalars.step = static_cast<uint32_t>(step);
  scalars.lr = lr;
  scalars.inv_targets = num_targets > 0 ? static_cast<float>(1.0 / double(num_targets)) : 0.0f;
  scalars.loss_sum = 0;
  grads_->begin_step();
}

void Session::train_step_ops() {
  Pass pass = make_pass(train_inputs_, true);
  model_.train(pass, train_inputs_.tokens, train_inputs_.targets);
}

void Session::update_ops() {
  optimizer_->update(ctx_, *weights_, *grads_);
  if (has_average()) {
    ema_update(ctx_, {.average = average_, .weights = weights_->flat_master(), .decay = options_.ema_decay});
  }
}

void Session::train_micro(const MicroBatch& batch) {
  enter(Phase::train);
  upload(train_inputs_, batch);
  ctx_.scalars->token_base = static_cast<uint32_t>(batch.token_base);
  train_step_ops();
}

Session::StepResult Session::end_step() {
  enter(Phase::train);
  update_ops();
  const StepScalars& scalars = *ctx_.scalars;
  return {scalars.loss_sum, scalars.grad_norm, scalars.finite != 0};
}

Session::StepResult Session::abandon_step() {
  StepScalars& scalars = *ctx_.scalars;
  scalars.finite = 0;
  scalars.grad_norm = std::numeric_limits<float>::quiet_NaN();
  return {scalars.loss_sum, scalars.grad_norm, false};
}

Session::NonFinite Session::find_non_finite_activation() {
  NonFinite found;
  const ArenaScope scope(ctx_.scratch);
  const TensorView row = ctx_.alloc_scratch({1}, DType::int32, "row");
  Pass pass = make_pass(train_inputs_, false);
  model_.visit_activations(pass, train_inputs_.tokens, [&](const std::string& where, const TensorView& x) {
    find_non_finite(ctx_, x, row);
    if (!ctx_.dry && found.row < 0 && *row.ptr<int32_t>() >= 0) found = {where, *row.ptr<int32_t>()};
  });
  return found;
}

std::string Session::diagnose(const StepBatch& batch) {
  for (const MicroBatch& micro : batch.micro) {
    enter(Phase::diagnose);
    upload(train_inputs_, micro);
    const NonFinite found = find_non_finite_activation();
    if (found.row >= 0) {
      const int64_t sample = (micro.token_base + found.row) / options_.context;
      return fmt::format("the first activation that is not finite is in '{}', sample {} of the batch", found.where,
                         sample);
    }
  }
  for (ParamId id = static_cast<ParamId>(model_.params().size()); id-- > 0;) {
    const TensorView grad = grads_->view(id);
    const bool finite = !grad.defined() || std::all_of(grad.ptr<float>(), grad.ptr<float>() + grad.numel(),
                                                       [](float value) { return std::isfinite(value); });
    if (!finite)
      return fmt::format("activations are finite; the gradient of '{}' is not", model_.params().spec(id).name);
  }
  return "activations and gradients are finite one by one; their norm or the loss overflows";
}

void Session::exchange_average() {
  assert(has_average());
  exchange(ctx_, weights_->flat_master(), average_);
  weights_->refresh_compute(ctx_);
  num_cached_ = 0;
}

std::vector<Session::StateTensor> Session::optimizer_state() const {
  std::vector<StateTensor> state = {{"adamw.first_moments", optimizer_->first_moments()},
                                    {"adamw.second_moments", optimizer_->second_moments()}};
  if (has_average()) state.push_back({kAverageName, average_});
  return state;
}

void Session::restored(uint32_t updates) {
  ctx_.scalars->updates = updates;
  weights_->refresh_compute(ctx_);
  num_cached_ = 0;
}

double Session::eval_micro(const MicroBatch& batch) {
  enter(Phase::eval);
  upload(eval_inputs_, batch);
  ctx_.scalars->loss_sum = 0;
  Pass pass = make_pass(eval_inputs_, false);
  model_.evaluate(pass, eval_inputs_.tokens, eval_inputs_.targets);
  return ctx_.scalars->loss_sum;
}

void Session::allocate_caches() {
  Pass pass = make_pass(generate_inputs_, false);
  caches_ = model_.make_caches(pass, options_.context);
}

void Session::extend_sequence_ops(int64_t rows) {
  const ArenaScope scope(ctx_.scratch);
  Pass pass = make_pass(generate_inputs_, false);
  pass.seq.positions = pass.seq.positions.slice_rows(0, rows);
  const TensorView out = options_.dtype == DType::fp32 ? logits_ : pass.scratch(logits_.shape, "narrow logits");
  model_.logits(pass, generate_inputs_.tokens.slice_rows(0, rows), rows - 1, rows, out, caches_);
  if (options_.dtype != DType::fp32) convert(ctx_, {.from = out, .to = logits_});
}

std::span<const float> Session::extend_sequence() {
  enter(Phase::generate);
  const auto fresh = std::span(sequence_).subspan(num_cached_);
  const auto cached = static_cast<int32_t>(num_cached_), rows = static_cast<int32_t>(fresh.size());
  const SeqLayout& seq = generate_inputs_.seq;
  std::copy(fresh.begin(), fresh.end(), generate_inputs_.tokens.ptr<int32_t>());
  std::iota(seq.positions.ptr<int32_t>(), seq.positions.ptr<int32_t>() + rows, cached);
  copy_in(seq.cu_q, std::array{0, rows});
  copy_in(seq.cu_kv, std::array{0, cached + rows});
  extend_sequence_ops(rows);
  num_cached_ = sequence_.size();
  return {logits_.ptr<float>(), static_cast<size_t>(logits_.numel())};
}

std::span<const float> Session::start_generation(std::span<const int32_t> prompt) {
  if (prompt.empty()) throw usage_error("the prompt has no tokens", "give at least one to start from");
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
