// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/cpu_runtime.h"
#include "cuda/gpu_runtime.h"
#include "ops/ema.h"
#include "ops/transfer.h"
#include "session/memory_check.h"

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
  if (const std::optional<size_t> available = runtime_->available_bytes()) {
    require_memory(plan_, options, model.params().plan(), *available);
  }
  slab_ = runtime_->allocate(plan_.slab_bytes());
  ctx_.persistent.attach(slab_.first(plan_.persistent.bytes));
  if (options.frozen_beside_slab) {
    frozen_memory_ = runtime_->allocate_shared(plan_.frozen.bytes);
    frozen_arena_.attach({frozen_memory_.get(), plan_.frozen.bytes});
  }
  for (Arena* arena : {&ctx_.persistent, &ctx_.saved, &ctx_.scratch, &frozen_arena_}) {
    arena->set_poison(options.poison ? runtime_->poison() : nullptr);
  }
  allocate_persistent();
  for (const Inputs* inputs : {&train_inputs_, &eval_inputs_, &generate_inputs_}) {
    if (inputs->block.defined()) runtime_->reserve_uploads(inputs->block.bytes());
  }
  enter(Phase::load);
  weights_->initialise(ctx_, options.seed);
  if (has_average()) copy_on_device(ctx_, average_, weights_->flat_master());
}

FrozenPlace Session::frozen_place() {
  assert(!options_.frozen_beside_slab || options_.frozen == nullptr);
  if (options_.frozen) options_.frozen->check_session(options_.dtype, options_.device);
  return {.arena = options_.frozen_beside_slab ? &frozen_arena_ : nullptr, .shared = options_.frozen.get()};
}

void Session::allocate_persistent() {
  const TensorView scalars =
      ctx_.alloc(ctx_.persistent, {static_cast<int64_t>(sizeof(StepScalars))}, DType::int8, "step scalars");
  weights_.emplace(ctx_, model_.params(), options_.dtype, frozen_place());
  if (!options_.inference) allocate_training();
  tables_ = model_.make_position_tables(ctx_, options_.context);
  const auto inputs = [&](std::string_view name, int64_t tokens, int64_t rows, bool weighted) {
    return allocate_inputs(name, tokens > 0 ? tokens : rows * options_.context, rows * options_.seqs_per_row, weighted);
  };
  if (!options_.inference) {
    train_inputs_ = inputs("train inputs", options_.train_tokens, options_.train_seqs, options_.row_weights);
  }
  eval_inputs_ = inputs("eval inputs", options_.eval_tokens, options_.eval_seqs, false);
  if (options_.sequence_losses) {
    assert(!is_classifier());
    sequence_losses_ = ctx_.alloc(ctx_.persistent, {eval_inputs_.seq.max_seqs}, DType::fp32, "sequence losses");
  }
  if (model_.spec().head == HeadKind::causal_lm) {
    generate_inputs_ = allocate_inputs("generate inputs", options_.context, 1);
    generate_inputs_.seq.cu_kv = ctx_.alloc(ctx_.persistent, {2}, DType::int32, "generate inputs.key offsets");
    logits_ = ctx_.alloc(ctx_.persistent, {1, model_.spec().vocab}, DType::fp32, "next logits");
  }
  if (is_classifier()) allocate_classes();
  if (ctx_.dry) return;
  ctx_.scalars = reinterpret_cast<StepScalars*>(scalars.data);
  write_first_scalars();
}

void Session::write_first_scalars() {
  step_inputs_ = StepInputs();
  step_inputs_.dropout = options_.dropout;
  step_inputs_.seed = options_.seed;
  step_inputs_.scale_growth_steps = options_.loss_scaling.growth_steps;
  if (optimizer_) optimizer_->set_scalars(step_inputs_);
  StepScalars first;
  static_cast<StepInputs&>(first) = step_inputs_;
  first.loss_scale = options_.loss_scaling.initial;
  upload_value(ctx_.scalars, first);
}

void Session::allocate_training() {
  grads_.emplace(ctx_, model_.params());
  optimizer_.emplace(ctx_, model_.params(), options_.adamw);
  if (options_.ema_decay > 0) {
    average_ = ctx_.alloc(ctx_.persistent, {model_.params().flat_size()}, DType::fp32, "averaged weights");
  }
}

void Session::allocate_classes() {
  const int64_t labels = model_.spec().labels;
  // Rows begin at multiples of 32 bytes for any number of labels, because matrix units need this alignment.
  const Shape padded{options_.eval_seqs, (labels + 7) / 8 * 8};
  class_logits_ = ctx_.alloc(ctx_.persistent, padded, DType::fp32, "class logits");
  if (options_.class_weights.empty()) return;
  assert(std::ssize(options_.class_weights) == labels);
  class_weights_ = ctx_.alloc(ctx_.persistent, {labels}, DType::fp32, "class weights");
  if (!ctx_.dry) copy_to_device(ctx_, class_weights_, options_.class_weights.data());
}

Session::Inputs Session::allocate_inputs(std::string_view name, int64_t tokens, int64_t seqs, bool weighted) {
  assert(!weighted || !is_classifier());
  const NameScope scope(ctx_, name);
  const int64_t rows = token_capacity(tokens), targets = is_classifier() ? token_capacity(seqs) : rows;
  const int64_t types = model_.spec().token_types > 1 ? rows : 0;  // a single type needs no ids
  const int64_t weights = weighted ? rows : 0, all = 2 * rows + types + targets + weights + seqs + 1;
  Inputs inputs{.block = ctx_.alloc(ctx_.persistent, {all}, DType::int32, "batch")};
  int64_t begin = 0;
  const auto next = [&](int64_t size) {
    begin += size;
    return inputs.block.slice_rows(begin - size, begin);
  };
  inputs.tokens = next(rows);
  if (types > 0) inputs.token_types = next(types);
  inputs.seq.positions = next(rows);
  inputs.targets = next(targets);
  if (is_classifier()) inputs.targets = inputs.targets.slice_rows(0, seqs);
  if (is_classifier() && model_.spec().labels == 1) inputs.targets.dtype = DType::fp32;
  if (weighted) {
    inputs.weights = next(weights);
    inputs.weights.dtype = DType::fp32;
  }
  inputs.seq.cu_q = inputs.seq.cu_kv = next(seqs + 1);
  inputs.seq.max_seqs = seqs;
  inputs.seq.max_len = options_.context;
  inputs.may_be_dense = options_.seqs_per_row == 1 && seqs * options_.context <= rows;
  return inputs;
}

Session::Inputs Session::Inputs::first_rows(int64_t rows) const {
  Inputs part = *this;
  part.tokens = tokens.slice_rows(0, rows);
  part.seq.positions = seq.positions.slice_rows(0, rows);
  if (token_types.defined()) part.token_types = token_types.slice_rows(0, rows);
  if (targets.numel() == tokens.numel()) part.targets = targets.slice_rows(0, rows);
  if (weights.defined()) part.weights = weights.slice_rows(0, rows);
  return part;
}

Session::Inputs Session::quarters_of(const Inputs& inputs, int quarters) const {
  if (quarters == kQuarters) return inputs;
  return inputs.first_rows(token_capacity(inputs.capacity() * quarters / kQuarters));
}

MemoryPlan Session::run_on_paper() {
  MemoryPlan plan;
  plan.device = options_.device;
  plan.persistent = {ctx_.persistent.high_water(), ctx_.persistent.owners_at_peak()};
  plan.frozen = {frozen_arena_.high_water(), frozen_arena_.owners_at_peak()};
  if (options_.frozen) {
    plan.frozen.bytes = options_.frozen->bytes;
    plan.frozen_is_there = true;
  }
  const auto run = [&](Phase phase, auto&& ops) {
    PhasePlan& result = plan.phases[static_cast<size_t>(phase)];
    ctx_.saved = Arena("saved");
    ctx_.scratch = Arena("scratch");
    ctx_.ledger = &result.ledger;
    ops();
    result.saved = {ctx_.saved.high_water(), ctx_.saved.owners_at_peak()};
    result.scratch = {ctx_.scratch.high_water(), ctx_.scratch.owners_at_peak()};
  };
  // Batches may be dense or not, and use all rows or a part. Libraries need different workspaces for these, so the plan
  // covers all of them; it counts the work of a dense batch. Rows shared by several sequences are never dense.
  const auto run_all = [&](Inputs& inputs, bool in_quarters, auto&& ops) {
    inputs.seq.dense = inputs.may_be_dense;
    ops(inputs);
    ctx_.ledger = nullptr;
    inputs.seq.dense = false;
    for (int quarters = in_quarters ? 1 : kQuarters; quarters <= kQuarters; ++quarters) {
      ops(quarters_of(inputs, quarters));
    }
  };
  run(Phase::load, [&] { weights_->initialise(ctx_, options_.seed); });
  if (!options_.inference) {
    run(Phase::train, [&] {
      grads_->begin_step();
      run_all(train_inputs_, options_.train_tokens > 0, [&](const Inputs& inputs) {
        train_step_ops(inputs);
        if (ctx_.ledger != nullptr) update_ops();
      });
    });
    run(Phase::diagnose, [&] { find_non_finite_activation(); });
  }
  run(Phase::eval,
      [&] { run_all(eval_inputs_, options_.eval_tokens > 0, [&](const Inputs& inputs) { eval_ops(inputs); }); });
  if (model_.spec().head == HeadKind::causal_lm) {
    run(Phase::generate, [&] {
      allocate_caches();
      extend_sequence_ops(options_.context);
    });
  }
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

int Session::upload(Inputs& inputs, const MicroBatch& batch) {
  staging_.clear();
  const auto append = [&]<class T>(const std::vector<T>& part, int64_t size, T missing = 0) {
    assert(std::ssize(part) <= size);
    for (T value : part) staging_.push_back(std::bit_cast<int32_t>(value));
    staging_.resize(staging_.size() + static_cast<size_t>(size - std::ssize(part)), std::bit_cast<int32_t>(missing));
  };
  assert(batch.weights.empty() || &inputs != &train_inputs_ || inputs.weights.defined());
  const int64_t rows = inputs.capacity();
  append(batch.tokens, rows);
  if (inputs.token_types.defined()) append(batch.token_types, rows);
  append(batch.positions, rows);
  append(batch.targets, is_classifier() ? token_capacity(inputs.seq.max_seqs) : rows);
  if (inputs.weights.defined()) append(batch.weights, rows, batch.weights.empty() ? 1.0f : 0.0f);
  // Sequences that the batch does not have are empty.
  append(batch.cu_seqlens, inputs.seq.max_seqs + 1, batch.cu_seqlens.back());
  assert(inputs.block.numel() == std::ssize(staging_));
  runtime_->upload(inputs.block.data, std::as_bytes(std::span(staging_)));
  inputs.seq.dense = inputs.may_be_dense && std::ssize(batch.cu_seqlens) == inputs.seq.max_seqs + 1;
  for (size_t i = 0; inputs.seq.dense && i < batch.cu_seqlens.size(); ++i) {
    inputs.seq.dense &= batch.cu_seqlens[i] == static_cast<int64_t>(i) * options_.context;
  }
  const bool in_quarters = (&inputs == &eval_inputs_ ? options_.eval_tokens : options_.train_tokens) > 0;
  if (!in_quarters || inputs.seq.dense) return kQuarters;
  int quarters = 1;
  while (quarters < kQuarters && quarters_of(inputs, quarters).capacity() < batch.cu_seqlens.back()) ++quarters;
  return quarters;
}

void Session::run(Sequence sequence, int quarters, bool dense, const std::function<void()>& ops) {
  if (ctx_.observer != nullptr) return ops();
  const int key = (static_cast<int>(sequence) * kQuarters + quarters - 1) * 2 + (dense ? 1 : 0);
  runtime_->run(key, ops);
}

Pass Session::make_pass(const Inputs& inputs, bool train) {
  return {.ctx = ctx_,
          .weights = *weights_,
          .grads = train ? &*grads_ : nullptr,
          .seq = inputs.seq,
          .policy = train ? options_.policy : SavePolicy::forward_only(),
          .tables = tables_,
          .relative = {},
          .drelative = {},
          .class_weights = class_weights_};
}

void Session::begin_weighted_step(int64_t step, float lr, double weight_sum, float loss_limit) {
  step_inputs_.step = static_cast<uint32_t>(step);
  step_inputs_.lr = lr;
  step_inputs_.inv_targets = weight_sum > 0 ? static_cast<float>(1.0 / weight_sum) : 0.0f;
  step_inputs_.loss_limit = loss_limit;
  upload_value<StepInputs>(ctx_.scalars, step_inputs_);
  grads_->begin_step();
  first_micro_ = true;
}

void Session::train_step_ops(const Inputs& inputs) {
  Pass pass = make_pass(inputs, true);
  model_.train(pass, inputs.model_inputs(), {.values = inputs.targets, .weights = inputs.weights});
}

void Session::update_ops() {
  optimizer_->update(ctx_, *weights_, *grads_);
  weights_->refresh_gains(ctx_);
  if (has_average()) {
    ema_update(ctx_, {.average = average_, .weights = weights_->flat_master(), .decay = options_.ema_decay});
  }
}

void Session::train_micro(const MicroBatch& batch) {
  enter(Phase::train);
  const int quarters = upload(train_inputs_, batch);
  upload_value(&ctx_.scalars->token_base, static_cast<uint32_t>(batch.token_base));
  // Gradients of the first micro-batch overwrite, those of later ones add, so there are two sequences.
  run(first_micro_ ? Sequence::first_micro : Sequence::later_micro, quarters, train_inputs_.seq.dense,
      [&] { train_step_ops(quarters_of(train_inputs_, quarters)); });
  grads_->set_all_written();
  first_micro_ = false;
}

Runtime::Read Session::submit_step() {
  enter(Phase::train);
  // Beside the captured sequences, so that graphs hold no collectives.
  Communicator& ranks = *options_.communicator;
  ranks.all_reduce(ctx_, grads_->flat());
  ranks.all_reduce(ctx_, &ctx_.scalars->loss_sum);
  run(Sequence::update, kQuarters, false, [this] { update_ops(); });
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

}  // namespace gradmill
