// SPDX-License-Identifier: Apache-2.0
// Session: what one running training needs beside the model's structure. It plans itself on paper, allocates one slab,
// and after that never allocates again.
#pragma once

#include <memory>
#include <optional>

#include "cpu/thread_pool.h"
#include "data/batch.h"
#include "models/transformer.h"
#include "optim/optimizer.h"
#include "train/memory_plan.h"

namespace gradmill {

struct SessionOptions {
  DeviceSpec device = host_cpu();
  int num_threads = 1;
  DType dtype = DType::fp32;
  SavePolicy policy = SavePolicy::none();
  int64_t train_seqs = 1;  // sequences of a micro-batch
  int64_t eval_seqs = 1;
  int64_t context = 1;
  AdamWOptions adamw;
  float dropout = 0;
  uint64_t seed = 0;
  bool poison = false;     // fill every allocation with NaN first: for tests
};

class Session {
 public:
  Session(const Transformer& model, const SessionOptions& options);

  // The plan alone: nothing is allocated, and the device need not be present.
  static MemoryPlan plan(const Transformer& model, const SessionOptions& options);

  const MemoryPlan& memory_plan() const { return plan_; }
  // High-water marks of the real arenas so far, to compare with the plan.
  struct ArenaUse {
    size_t persistent = 0;
    struct {
      size_t saved = 0, scratch = 0;
    } phases[kNumPhases];
  };
  ArenaUse arena_use() const;

  ExecContext& context() { return ctx_; }
  Weights& weights() { return *weights_; }
  const Gradients& gradients() const { return *grads_; }

  // A training step: begin_step, train_micro for every micro-batch, end_step.
  void begin_step(int64_t step, float lr, int64_t num_targets);
  void train_micro(const MicroBatch& batch);
  struct StepResult {
    double loss_sum = 0;  // over the step's targets
    float grad_norm = 0;
    bool finite = true;   // false: weights and moments were left alone
  };
  StepResult end_step();

  // The sum of the losses of one micro-batch's targets.
  double eval_micro(const MicroBatch& batch);
  // Logits (V) of the token that follows `tokens`, of which at most the last `context` count.
  std::span<const float> next_logits(std::span<const int32_t> tokens);

 private:
  // A phase's inputs in device memory.
  struct Inputs {
    TensorView tokens, targets;  // (N) int32
    SeqLayout seq;
  };
  struct OnPaper {};

  Session(const Transformer& model, const SessionOptions& options, OnPaper);
  void allocate_persistent();
  Inputs allocate_inputs(std::string_view name, int64_t seqs);
  MemoryPlan run_on_paper();
  void enter(Phase phase);
  void upload(const Inputs& inputs, const MicroBatch& batch);
  Pass make_pass(const Inputs& inputs, bool train);

  void train_step_ops();
  void update_ops();

  const Transformer& model_;
  SessionOptions options_;
  ExecContext ctx_;
  std::unique_ptr<cpu::ThreadPool> pool_;
  MemoryPlan plan_;
  Storage slab_;
  std::optional<Phase> phase_;
  ArenaUse use_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
  std::optional<Optimizer> optimizer_;
  TensorView rope_table_, logits_;
  Inputs train_inputs_, eval_inputs_, generate_inputs_;
};

}  // namespace gradmill
