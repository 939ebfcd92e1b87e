// SPDX-License-Identifier: Apache-2.0
#include "train/session.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/convert.h"

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
  for (Arena* arena : {&ctx_.persistent, &ctx_.saved, &ctx_.scratch}) arena->set_poison(options.poison);
  allocate_persistent();
  weights_->initialise(ctx_, options.seed);
}

void Session::allocate_persistent() {
  const TensorView scalars = ctx_.alloc(ctx_.persistent, {static_cast<int64_t>(sizeof(StepScalars))}, DType::int8, "step scalars");
  weights_.emplace(ctx_, model_.params(), options_.dtype);
  grads_.emplace(ctx_, model_.params());
  optimizer_.emplace(ctx_, model_.params(), options_.adamw);
  rope_table_ = model_.make_rope_table(ctx_);
  train_inputs_ = allocate_inputs("train inputs", options_.train_seqs);
  eval_inputs_ = allocate_inputs("eval inputs", options_.eval_seqs);
  generate_inputs_ = allocate_inputs("generate inputs", 1);
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
  run(Phase::generate, [&] { next_logits({}); });
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
  return {.ctx = ctx_, .weights = *weights_, .grads = train ? &*grads_ : nullptr, .seq = inputs.seq,
          .policy = train ? options_.policy : SavePolicy::forward_only(), .rope_table = rope_table_};
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

void Session::update_ops() { optimizer_->update(ctx_, *weights_, *grads_); }

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

double Session::eval_micro(const MicroBatch& batch) {
  enter(Phase::eval);
  upload(eval_inputs_, batch);
  ctx_.scalars->loss_sum = 0;
  Pass pass = make_pass(eval_inputs_, false);
  model_.evaluate(pass, eval_inputs_.tokens, eval_inputs_.targets);
  return ctx_.scalars->loss_sum;
}

std::span<const float> Session::next_logits(std::span<const int32_t> tokens) {
  enter(Phase::generate);
  const auto length = std::min(static_cast<int64_t>(tokens.size()), options_.context);
  if (!ctx_.dry) {
    assert(length > 0);
    const auto last_tokens = tokens.last(static_cast<size_t>(length));
    const Inputs& in = generate_inputs_;
    std::memset(in.tokens.data, 0, in.tokens.bytes());
    std::memset(in.seq.positions.data, 0, in.seq.positions.bytes());
    std::copy(last_tokens.begin(), last_tokens.end(), in.tokens.ptr<int32_t>());
    std::iota(in.seq.positions.ptr<int32_t>(), in.seq.positions.ptr<int32_t>() + length, 0);
    in.seq.cu_q.ptr<int32_t>()[0] = 0;
    in.seq.cu_q.ptr<int32_t>()[1] = static_cast<int32_t>(length);
  }
  const ArenaScope scope(ctx_.scratch);
  Pass pass = make_pass(generate_inputs_, false);
  const TensorView out = options_.dtype == DType::fp32 ? logits_ : pass.scratch(logits_.shape, "narrow logits");
  const int64_t last = ctx_.dry ? 0 : length - 1;
  model_.logits(pass, generate_inputs_.tokens, last, last + 1, out);
  if (options_.dtype != DType::fp32) convert(ctx_, {.from = out, .to = logits_});
  if (ctx_.dry) return {};
  return {logits_.ptr<float>(), static_cast<size_t>(logits_.numel())};
}

}  // namespace gradmill
