// SPDX-License-Identifier: Apache-2.0
#include "train/session.h"

#include <algorithm>
#include <cstring>

#include "cpu/cpu_runtime.h"
#include "cuda/gpu_runtime.h"
#include "nn/dora.h"
#include "ops/ema.h"
#include "ops/transfer.h"

namespace gradmill {

std::unique_ptr<Runtime> make_runtime(const SessionOptions& options) {
  const RuntimeOptions runtime{.device = options.device,
                               .num_threads = options.num_threads,
                               .capture = options.capture && !options.poison,
                               .autotune = options.autotune,
                               .tuning_cache = options.tuning_cache,
                               .note = options.note};
  if (options.device.kind == DeviceKind::cuda) return cuda::make_runtime(runtime);
  return std::make_unique<cpu::CpuRuntime>(runtime);
}

Session::Session(const Transformer& model, const SessionOptions& options, OnPaper, Runtime* runtime)
    : model_(model), options_(options) {
  ctx_.device = options.device;
  ctx_.kernels = options.kernels;
  ctx_.dry = true;
  if (runtime != nullptr) runtime->attach(ctx_);
  allocate_persistent();
}

MemoryPlan Session::plan(const Transformer& model, const SessionOptions& options, Runtime* runtime) {
  return Session(model, options, OnPaper{}, runtime).run_on_paper();
}

Session::Session(const Transformer& model, const SessionOptions& options)
    : model_(model), options_(options), runtime_(make_runtime(options)), plan_(plan(model, options, runtime_.get())) {
  ctx_.device = options.device;
  ctx_.kernels = options.kernels;
  runtime_->attach(ctx_);
  slab_ = runtime_->allocate(plan_.slab_bytes());
  ctx_.persistent.attach(slab_.first(plan_.persistent.bytes));
  for (Arena* arena : {&ctx_.persistent, &ctx_.saved, &ctx_.scratch}) {
    arena->set_poison(options.poison ? runtime_->poison() : nullptr);
  }
  allocate_persistent();
  enter(Phase::train);
  weights_->initialise(ctx_, options.seed);
  if (has_average()) copy_on_device(ctx_, average_, weights_->flat_master());
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
  const int64_t train_rows = options_.train_seqs, eval_rows = options_.eval_seqs, seqs_per_row = options_.seqs_per_row;
  train_inputs_ = allocate_inputs("train inputs", train_rows, train_rows * seqs_per_row);
  eval_inputs_ = allocate_inputs("eval inputs", eval_rows, eval_rows * seqs_per_row);
  generate_inputs_ = allocate_inputs("generate inputs", 1, 1);
  generate_inputs_.seq.cu_kv = ctx_.alloc(ctx_.persistent, {2}, DType::int32, "generate inputs.key offsets");
  logits_ = ctx_.alloc(ctx_.persistent, {1, model_.spec().vocab}, DType::fp32, "next logits");
  if (ctx_.dry) return;
  step_inputs_.dropout = options_.dropout;
  step_inputs_.seed = options_.seed;
  step_inputs_.scale_growth_steps = options_.loss_scaling.growth_steps;
  optimizer_->set_scalars(step_inputs_);
  ctx_.scalars = reinterpret_cast<StepScalars*>(scalars.data);
  StepScalars first;
  static_cast<StepInputs&>(first) = step_inputs_;
  first.loss_scale = options_.loss_scaling.initial;
  copy_to_device(ctx_, scalars, &first);
}

Session::Inputs Session::allocate_inputs(std::string_view name, int64_t rows, int64_t seqs) {
  const NameScope scope(ctx_, name);
  const int64_t tokens = token_capacity(rows * options_.context);
  Inputs inputs{.block = ctx_.alloc(ctx_.persistent, {3 * tokens + seqs + 1}, DType::int32, "batch")};
  inputs.tokens = inputs.block.slice_rows(0, tokens);
  inputs.targets = inputs.block.slice_rows(tokens, 2 * tokens);
  inputs.seq.positions = inputs.block.slice_rows(2 * tokens, 3 * tokens);
  inputs.seq.cu_q = inputs.seq.cu_kv = inputs.block.slice_rows(3 * tokens, 3 * tokens + seqs + 1);
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
  // Batches may be dense or not, and libraries want different workspaces for them: the plan covers both, and counts the
  // work of a dense one. Rows that several sequences share are never dense.
  const auto run_both = [&](Inputs& inputs, auto&& ops) {
    inputs.seq.dense = options_.seqs_per_row == 1;
    ops();
    ctx_.ledger = nullptr;
    inputs.seq.dense = false;
    ops();
  };
  run(Phase::train, [&] {
    grads_->begin_step();
    run_both(train_inputs_, [&] {
      train_step_ops();
      if (ctx_.ledger != nullptr) update_ops();
    });
  });
  run(Phase::eval, [&] { run_both(eval_inputs_, [&] { eval_ops(); }); });
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
  const std::span<std::byte> region = slab_.subspan(plan_.persistent.bytes);
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

void Session::upload(Inputs& inputs, const MicroBatch& batch) {
  staging_.clear();
  for (const std::vector<int32_t>* part : {&batch.tokens, &batch.targets, &batch.positions, &batch.cu_seqlens}) {
    staging_.insert(staging_.end(), part->begin(), part->end());
  }
  assert(inputs.block.numel() == std::ssize(staging_));
  runtime_->upload(inputs.block.data, std::as_bytes(std::span(staging_)));
  inputs.seq.dense = options_.seqs_per_row == 1;
  for (size_t i = 0; inputs.seq.dense && i < batch.cu_seqlens.size(); ++i) {
    inputs.seq.dense &= batch.cu_seqlens[i] == static_cast<int64_t>(i) * options_.context;
  }
}

void Session::run(Sequence sequence, bool dense, const std::function<void()>& ops) {
  if (ctx_.observer != nullptr) return ops();
  runtime_->run(2 * static_cast<int>(sequence) + (dense ? 1 : 0), ops);
}

Pass Session::make_pass(const Inputs& inputs, bool train) {
  return {.ctx = ctx_,
          .weights = *weights_,
          .grads = train ? &*grads_ : nullptr,
          .seq = inputs.seq,
          .policy = train ? options_.policy : SavePolicy::forward_only(),
          .rope_table = rope_table_};
}

void Session::begin_step(int64_t step, float lr, int64_t num_targets, float loss_limit) {
  step_inputs_.step = static_cast<uint32_t>(step);
  step_inputs_.lr = lr;
  step_inputs_.inv_targets = num_targets > 0 ? static_cast<float>(1.0 / double(num_targets)) : 0.0f;
  step_inputs_.loss_limit = loss_limit;
  upload_value<StepInputs>(ctx_.scalars, step_inputs_);
  grads_->begin_step();
  first_micro_ = true;
}

void Session::train_step_ops() {
  Pass pass = make_pass(train_inputs_, true);
  model_.train(pass, train_inputs_.tokens, train_inputs_.targets);
}

void Session::update_ops() {
  optimizer_->update(ctx_, *weights_, *grads_);
  refresh_gains(ctx_, *weights_);
  if (has_average()) {
    ema_update(ctx_, {.average = average_, .weights = weights_->flat_master(), .decay = options_.ema_decay});
  }
}

void Session::train_micro(const MicroBatch& batch) {
  enter(Phase::train);
  upload(train_inputs_, batch);
  upload_value(&ctx_.scalars->token_base, static_cast<uint32_t>(batch.token_base));
  // Gradients of the first micro-batch overwrite, those of later ones add: two sequences.
  run(first_micro_ ? Sequence::first_micro : Sequence::later_micro, train_inputs_.seq.dense,
      [this] { train_step_ops(); });
  grads_->set_all_written();
  first_micro_ = false;
}

Runtime::Read Session::submit_step() {
  enter(Phase::train);
  run(Sequence::update, false, [this] { update_ops(); });
  return runtime_->read_later(ctx_.scalars, sizeof(StepScalars));
}

Session::StepResult Session::wait(Runtime::Read step) {
  StepScalars scalars;
  std::memcpy(&scalars, runtime_->wait(step).data(), sizeof(scalars));
  return {scalars.loss_sum,
          scalars.grad_norm,
          scalars.finite != 0,
          {scalars.updates, scalars.loss_scale, scalars.scale_streak}};
}

StepScalars Session::read_scalars() {
  StepScalars scalars;
  std::memcpy(&scalars, runtime_->wait(runtime_->read_later(ctx_.scalars, sizeof(scalars))).data(), sizeof(scalars));
  return scalars;
}

void Session::profile(Ledger& ledger) {
  profiler_ = runtime_->make_profiler(ledger);
  ctx_.observer = profiler_.get();
  ctx_.ledger = &ledger;
}

void Session::stop_profile() {
  ctx_.observer = nullptr;
  ctx_.ledger = nullptr;
  profiler_.reset();
}

std::vector<float> Session::read(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.numel()));
  copy_to_host(ctx_, values.data(), view);
  return values;
}

void Session::eval_ops() {
  Pass pass = make_pass(eval_inputs_, false);
  model_.evaluate(pass, eval_inputs_.tokens, eval_inputs_.targets);
}

double Session::eval_micro(const MicroBatch& batch) {
  enter(Phase::eval);
  upload(eval_inputs_, batch);
  upload_value(&ctx_.scalars->loss_sum, 0.0);
  run(Sequence::eval, eval_inputs_.seq.dense, [this] { eval_ops(); });
  return read_scalars().loss_sum;
}

}  // namespace gradmill
