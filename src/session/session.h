// SPDX-License-Identifier: Apache-2.0
// Session: everything that training, evaluating or generating needs besides the model's structure. It plans itself on
// paper, allocates one slab, and then never allocates again.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "core/runtime.h"
#include "core/storage.h"
#include "data/batch.h"
#include "models/transformer.h"
#include "optim/optimizer.h"
#include "session/memory_plan.h"
#include "session/session_options.h"

namespace gradmill {

std::unique_ptr<Runtime> make_runtime(const SessionOptions& options);

class Session {
 public:
  // Counters that the device updates from step to step.
  struct Progress {
    uint32_t updates = 0;
    float loss_scale = 1;
    uint32_t scale_streak = 0;
  };

  Session(const Transformer& model, const SessionOptions& options);

  // Only plans: nothing is allocated, and the device need not be present. With the runtime of a present device,
  // libraries are asked for the sizes of their workspaces.
  static MemoryPlan plan(const Transformer& model, const SessionOptions& options, Runtime* runtime = nullptr);

  const MemoryPlan& memory_plan() const { return plan_; }
  // Memory besides the slab, and all memory used on the device according to its driver; 0 without a driver.
  size_t library_bytes() const { return runtime_->library_bytes(); }
  size_t driver_bytes() const { return runtime_->driver_bytes(); }
  // High-water marks of the real arenas so far, to compare with the plan.
  struct ArenaUse {
    size_t persistent = 0;
    struct {
      size_t saved = 0, scratch = 0;
    } phases[kNumPhases];
  };
  ArenaUse arena_use() const;

  ExecContext& context() { return ctx_; }
  const SessionOptions& options() const { return options_; }
  Weights& weights() { return *weights_; }
  // For loading weights from files: `fill` writes them and refreshes values derived from them, and has scratch memory
  // for this. Averages start from the resulting weights.
  void write_weights(const std::function<void(ExecContext&, Weights&)>& fill);
  const Gradients& gradients() const { return *grads_; }
  // The frozen weights for SessionOptions::frozen of other sessions, once they are loaded: nobody writes them from here
  // on. Needs SessionOptions::frozen_beside_slab.
  std::shared_ptr<const FrozenWeights> share_frozen();

  // Starts over, as a new session with these options would, in the same memory and with the plans, tuned kernels and
  // graphs that are there. Trained weights are random again: those that come from files must be written again. Frozen
  // weights stay. Results of steps must have been fetched. Throws a usage error where dropout would be turned on or
  // off, which takes other ops. Of sessions that train.
  void reset(uint64_t seed, const AdamWOptions& adamw, float dropout);

  // A training step: begin_step, train_micro for every micro-batch, end_step. The update is skipped if the mean loss
  // exceeds `loss_limit` or is not finite.
  void begin_step(int64_t step, float lr, int64_t num_targets,
                  float loss_limit = std::numeric_limits<float>::infinity()) {
    begin_weighted_step(step, lr, double(num_targets), loss_limit);
  }
  // The same if targets have different weights: the loss is divided by the sum of their weights.
  void begin_weighted_step(int64_t step, float lr, double weight_sum, float loss_limit);
  void train_micro(const MicroBatch& batch);
  struct StepResult {
    double loss_sum = 0;  // sum over the step's targets
    float grad_norm = 0;
    bool finite = true;  // false: weights and moments were not updated
    Progress progress;   // after the step
  };
  StepResult end_step() { return wait(submit_step()); }
  // end_step in two parts, so that the host can prepare the next step while the device computes this one. Results must
  // be fetched in order, and no more than Runtime::kReadsInFlight may wait.
  Runtime::Read submit_step();
  StepResult wait(Runtime::Read step);

  // After a step that was not finite: names the first layer and sample of the batch with activations that are not, or
  // the parameter whose gradient is not.
  std::string diagnose(const StepBatch& batch);

  // Swaps weights and averages. Call it before an evaluation with the averages, and again after it.
  bool has_average() const { return average_.defined(); }
  void exchange_average();

  // Everything a checkpoint holds, in host memory. On the CPU these are the session's own tensors, on a GPU copies.
  struct HostState {
    Storage copies;
    TensorView masters;               // (P) fp32
    std::vector<StateTensor> beside;  // what the optimiser keeps, then the averages
  };
  static constexpr const char* kAverageName = "averaged_weights";
  HostState host_state(bool with_values = true);
  // The bytes of these tensors.
  size_t state_bytes() const;
  // Call after writing values into a host state: the session takes them over.
  void restore(const HostState& host, const Progress& progress);

  // Counts and times every op until stop_profile. Meanwhile steps are not replayed as graphs.
  void profile(Ledger& ledger);
  void stop_profile();

  // A contiguous fp32 tensor of the session, in host memory.
  std::vector<float> read(const TensorView& view);

  // Language models: the sum of the losses of a micro-batch's targets, without weights.
  double eval_micro(const MicroBatch& batch);
  // The same for each of its sequences: minus the log-probability of its targets. Needs options.sequence_losses.
  struct SequenceLoss {
    double loss_sum = 0;
    int64_t num_targets = 0;
  };
  std::vector<SequenceLoss> eval_sequences(const MicroBatch& batch);
  // Classifiers: (num_seqs, labels), valid until the next call.
  std::span<const float> class_logits(const MicroBatch& batch);

  // Evaluates one token of the batch in every form that later batches may have, so that modules, plans and graphs for
  // all of them exist beforehand. Does nothing on a CPU.
  void rehearse_evaluation(const MicroBatch& batch);

  // Generation: the logits (V) for the token after the prompt, of which at most the last `context` tokens are used, and
  // for the token after `token`. They stay valid until the next call of either function. Each call runs the tokens
  // whose keys and values are not cached: usually one, but all of them after another phase used the memory, or after
  // exchange_average or restored. After writing weights directly, the caller must start again with the prompt. A full
  // context restarts with its last context / 2 tokens (at least 1), because positions cannot slide.
  std::span<const float> start_generation(std::span<const int32_t> prompt);
  std::span<const float> continue_generation(int32_t token);

 private:
  // A phase's inputs in device memory. They are views of one block, so that a batch arrives in one copy.
  struct Inputs {
    TensorView block;        // int32: tokens, token types, positions, targets, weights, sequence offsets
    TensorView tokens;       // (N) int32
    TensorView token_types;  // (N) int32; undefined if the model has fewer than two types
    TensorView targets;      // (N) int32; for classifiers (max_seqs) int32, or fp32 values
    TensorView weights;      // (N) fp32; undefined if batches have none
    SeqLayout seq;
    bool may_be_dense = false;

    int64_t capacity() const { return tokens.numel(); }
    // Views of the first rows.
    Inputs first_rows(int64_t rows) const;
    ModelInputs model_inputs() const { return {.tokens = tokens, .token_types = token_types}; }
  };
  struct OnPaper {};

  Session(const Transformer& model, const SessionOptions& options, OnPaper, Runtime* runtime);
  FrozenPlace frozen_place();
  void allocate_persistent();
  void write_first_scalars();
  void allocate_training();
  Inputs allocate_inputs(std::string_view name, int64_t tokens, int64_t seqs, bool weighted = false);
  bool is_classifier() const { return model_.spec().head == HeadKind::classifier; }
  void allocate_classes();
  MemoryPlan run_on_paper();
  void enter(Phase phase);
  // Returns how many quarters of the rows the batch needs.
  int upload(Inputs& inputs, const MicroBatch& batch);
  template <class T>
  void upload_value(T* to, const T& value) {
    runtime_->upload(to, std::as_bytes(std::span(&value, 1)));
  }
  // Sequences of ops that may be captured. Dense batches and each number of quarters have their own sequence.
  enum class Sequence : uint8_t { first_micro, later_micro, update, eval };
  void run(Sequence sequence, int quarters, bool dense, const std::function<void()>& ops);
  StepScalars read_scalars();
  // The tensors of a HostState in device memory, masters first.
  std::vector<StateTensor> state() const;
  Pass make_pass(const Inputs& inputs, bool train);

  struct NonFinite {
    std::string where;
    int64_t row = -1;
  };
  NonFinite find_non_finite_activation();

  static constexpr int kQuarters = 4;
  void train_step_ops(const Inputs& inputs);
  void eval_ops(const Inputs& inputs);
  Inputs quarters_of(const Inputs& inputs, int quarters) const;
  void update_ops();
  // Runs the tokens of sequence_ that are not cached yet.
  std::span<const float> extend_sequence();
  void allocate_caches();
  void extend_sequence_ops(int64_t rows);

  const Transformer& model_;
  SessionOptions options_;
  ExecContext ctx_;
  std::unique_ptr<Runtime> runtime_;
  MemoryPlan plan_;
  std::span<std::byte> slab_;
  std::shared_ptr<std::byte> frozen_memory_;
  Arena frozen_arena_{"frozen"};
  StepInputs step_inputs_;
  bool first_micro_ = true;
  std::unique_ptr<OpObserver> profiler_;
  std::vector<int32_t> staging_;  // a batch in the layout of Inputs::block
  std::optional<Phase> phase_;
  ArenaUse use_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
  std::optional<Optimizer> optimizer_;
  TensorView average_;  // (P) fp32
  PositionTables tables_;
  TensorView logits_;           // (1, V), for causal language models
  TensorView class_weights_;    // (labels) fp32, or undefined
  TensorView sequence_losses_;  // (sequences of an evaluation) fp32, or undefined
  TensorView class_logits_;     // (eval sequences, labels rounded up) fp32, for classifiers
  std::vector<float> next_logits_, host_logits_;
  Inputs train_inputs_, eval_inputs_, generate_inputs_;
  // Generation: the tokens so far. The first num_cached_ of them have rows in caches_ (one cache per layer, in the
  // saved arena).
  std::vector<int32_t> sequence_;
  size_t num_cached_ = 0;
  std::vector<KvCache> caches_;
};

}  // namespace gradmill
