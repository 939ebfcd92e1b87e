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
  float ema_decay = 0;  // of averaged weights; 0: none are kept
  float dropout = 0;
  uint64_t seed = 0;
  bool poison = false;  // fill every allocation with NaN first: for tests
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
    bool finite = true;  // false: weights and moments were left alone
  };
  StepResult end_step();
  // The sum of the losses of the step so far.
  double loss_so_far() const { return ctx_.scalars->loss_sum; }
  // Ends the step without an update.
  StepResult abandon_step();

  // After a step that was not finite: the first layer and sample of the batch whose activations are not, or else the
  // parameter whose gradient is not.
  std::string diagnose(const StepBatch& batch);

  // Exchanges weights and averages: once before an evaluation with the averages, once after it.
  bool has_average() const { return average_.defined(); }
  void exchange_average();

  // What a checkpoint holds beside the weights: moments and averages, (P) fp32 each, and the count of updates.
  struct StateTensor {
    std::string name;
    TensorView view;
  };
  static constexpr const char* kAverageName = "averaged_weights";
  std::vector<StateTensor> optimizer_state() const;
  uint32_t updates() const { return ctx_.scalars->updates; }
  // Call after values were written into weights or optimizer_state() from outside.
  void restored(uint32_t updates);

  // The sum of the losses of one micro-batch's targets.
  double eval_micro(const MicroBatch& batch);

  // Generation: the logits (V) of the token that follows the prompt, of which at most the last `context` tokens count,
  // and of the one that follows `token` after it. They stay valid until the next call of either. Each call runs the
  // tokens whose keys and values are not cached: one a call as a rule, and all of them after another phase used the
  // memory, or after exchange_average or restored. (Who writes weights by hand starts again.) A full context starts
  // over from its last context / 2 tokens (at least 1), because positions cannot slide.
  std::span<const float> start_generation(std::span<const int32_t> prompt);
  std::span<const float> continue_generation(int32_t token);

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

  struct NonFinite {
    std::string where;
    int64_t row = -1;
  };
  NonFinite find_non_finite_activation();

  void train_step_ops();
  void update_ops();
  // Runs the tokens of sequence_ that are not cached yet.
  std::span<const float> extend_sequence();
  void allocate_caches();
  void extend_sequence_ops(int64_t rows);

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
  TensorView average_;  // (P) fp32
  TensorView rope_table_, logits_;
  Inputs train_inputs_, eval_inputs_, generate_inputs_;
  // Generation: the tokens so far, the first num_cached_ of which have their rows in caches_ (one a layer, in the saved
  // arena).
  std::vector<int32_t> sequence_;
  size_t num_cached_ = 0;
  std::vector<KvCache> caches_;
};

}  // namespace gradmill
