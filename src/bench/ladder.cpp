// SPDX-License-Identifier: Apache-2.0
#include "bench/ladder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "metrics/format.h"
#include "run/run_model.h"
#include "run/run_options.h"
#include "bench/step_bench.h"

namespace gradmill {
namespace {

using Settings = std::vector<std::string>;

constexpr int kTf32Capability = 80;  // bf16 needs it too

// The settings here are our own, so a mistake in one is a bug.
RunConfig with_settings(RunConfig config, const Settings& settings) {
  const FieldList fields = fields_of(config);
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    const Field* field = fields.find(setting.substr(0, equals));
    assert(field != nullptr);
    [[maybe_unused]] const std::string wrong = set_value(*field, setting.substr(equals + 1));
    assert(wrong.empty());
  }
  return config;
}

// Adds `more`, which replaces earlier settings with the same keys.
Settings joined(Settings settings, const Settings& more) {
  for (const std::string& setting : more) {
    const std::string key = setting.substr(0, setting.find('=') + 1);
    std::erase_if(settings, [&](const std::string& old) { return old.starts_with(key); });
    settings.push_back(setting);
  }
  return settings;
}

class Climb {
 public:
  explicit Climb(std::vector<Rung>& rungs) : rungs_(rungs) {}
  void add(std::string name, const Settings& settings, std::string unavailable = {}) {
    settings_ = joined(settings_, settings);
    rungs_.push_back({.name = std::move(name), .settings = settings_, .unavailable = std::move(unavailable)});
  }
  // Policies that keep less than the user's policy does.
  void add_save_policies(const std::string& from) {
    const std::array<std::string, 3> policies = {"none", "cheap", "block"};
    const auto here = std::find(policies.begin(), policies.end(), from);
    for (auto next = here == policies.end() ? here : here + 1; next != policies.end(); ++next) {
      add("+ save policy " + *next, {"machine.save_policy=" + *next});
    }
  }
  const Settings& settings() const { return settings_; }

 private:
  std::vector<Rung>& rungs_;
  Settings settings_;
};

LadderRungs cpu_rungs(const RunConfig& base) {
  LadderRungs rungs;
  Climb climb(rungs.climb);
  climb.add("fp32, one thread", {"machine.dtype=fp32", "machine.threads=1"});
  const int threads = session_options(base).num_threads;
  if (threads > 1) climb.add(fmt::format("+ {} threads", threads), {fmt::format("machine.threads={}", threads)});
  climb.add_save_policies(base.machine.save_policy);
  return rungs;
}

// Whether attention.backend=auto chooses our Hopper kernels, as flash then does too (ops/attention/attention_cuda).
bool is_ours_on_hopper(const RunConfig& base, const DeviceSpec& device) {
  constexpr int64_t kHeadDim = 64, kTile = 128;
  return device.compute_capability == 90 && base.model.width == kHeadDim * base.model.heads &&
         base.model.context % kTile == 0 && base.model.dropout == 0;
}

LadderRungs gpu_rungs(const RunConfig& base, const DeviceSpec& device) {
  const bool ampere = device.compute_capability >= kTf32Capability;
  const std::string half = ampere ? "bf16" : "fp16";
  LadderRungs rungs;
  Climb climb(rungs.climb);
  climb.add("fp32, math attention",
            {"machine.dtype=fp32", "attention.backend=math", "compile.mode=off", "optimizer.fused=false"});
  climb.add("+ tf32", {"machine.dtype=tf32"}, ampere ? "" : "needs compute capability 8.0");
  climb.add("+ " + half, {"machine.dtype=" + half});
  climb.add("+ flash attention", {"attention.backend=auto"});
  climb.add("+ fused AdamW", {"compile.mode=default", "optimizer.fused=true"});
  climb.add("+ CUDA graphs", {"compile.mode=reduce-overhead"});
  climb.add("+ autotuned GEMMs", {"compile.mode=max-autotune"});
  rungs.everything = rungs.climb.back().name;
  const auto off = [&, all = climb.settings()](std::string name, const Settings& settings) -> Rung& {
    rungs.all_but.push_back({.name = std::move(name), .settings = joined(all, settings)});
    return rungs.all_but.back();
  };
  // The modes of compile.mode build on each other: no setting has autotuning without graphs.
  off("CUDA graphs", {}).adjust = [](SessionOptions& options) { options.capture = false; };
  off("fused AdamW", {"optimizer.fused=false"});
  if (is_ours_on_hopper(base, device)) {
    off("our attention (cuDNN instead)", {"attention.backend=cudnn"});
  } else {
    off("cuDNN attention (flash instead)", {"attention.backend=flash"}).unavailable =
        ampere ? "" : "needs compute capability 8.0";
  }
  off(half + (ampere ? " (tf32 instead)" : " (fp32 instead)"), {ampere ? "machine.dtype=tf32" : "machine.dtype=fp32"});
  off("autotuned GEMMs", {"compile.mode=reduce-overhead"});
  off("batched weight gradients", {}).adjust = [](SessionOptions& options) {
    options.kernels.batched_gradients = false;
  };
  // Only the kernels for Hopper fuse norms, and the activations of gated MLPs.
  const bool hopper = device.compute_capability == 90;
  if (hopper) {
    off("norms fused with GEMMs", {}).adjust = [](SessionOptions& options) {
      options.kernels.norms_in_products = false;
    };
  }
  if (base.model.style == "gpt2" || hopper) {
    off("activations fused with GEMMs", {}).adjust = [](SessionOptions& options) {
      options.kernels.fused_activations = false;
    };
  }
  climb.add_save_policies(base.machine.save_policy);
  return rungs;
}

// Checks the plan before anything is allocated: on a CPU the system would hand out memory that it does not have.
std::string does_not_fit(const Transformer& model, const SessionOptions& options) {
  const size_t needed = Session::plan(model, options).slab_bytes(), present = options.device.memory_bytes;
  if (needed <= present) return {};
  return fmt::format("does not fit: the plan needs {}, the device has {}", format_bytes(double(needed)),
                     format_bytes(double(present)));
}

void measure(RungResult& result, const RunConfig& config, int64_t vocab, const Rung& rung,
             const LadderOptions& options) {
  SessionOptions session = session_options(config);
  rung.adjust(session);
  result.failure = does_not_fit(*open_run_model(config, task_without_data(config), vocab).network, session);
  for (int64_t repeat = 0; repeat < options.repeats && result.ran(); ++repeat) {
    const StepBenchResult run = bench_steps(config, vocab, {.steps = options.steps, .adjust = rung.adjust});
    result.tokens_per_second.push_back(run.tokens_per_second);
    result.memory_bytes = run.memory_bytes;
    result.driver_bytes = run.driver_bytes;
    result.loss = run.mean_loss;
    result.grad_norm = run.first_grad_norm;
    result.notes = run.notes;
  }
}

RungResult run_rung(const RunConfig& base, int64_t vocab, const Rung& rung, const LadderOptions& options) {
  RungResult result{.name = rung.name, .settings = rung.settings, .failure = rung.unavailable};
  try {
    if (result.ran()) measure(result, with_settings(base, rung.settings), vocab, rung, options);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  options.progress(result);
  return result;
}

std::string describe_model(const RunConfig& config, int64_t vocab) {
  const Transformer model(model_spec(config, vocab));
  return fmt::format("{}: {} layers, width {}, {} heads, vocabulary {}, {} parameters; {} x {} tokens per step",
                     config.model.style, config.model.layers, config.model.width, config.model.heads, vocab,
                     format_count(double(model.params().num_parameters())), config.training.batch_size,
                     config.model.context);
}

// Quantile 0.975 of Student's t for 1, 2, ... degrees of freedom; for more, the normal distribution is close.
double student_t(size_t degrees) {
  constexpr std::array kQuantiles = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return degrees <= kQuantiles.size() ? kQuantiles[degrees - 1] : 1.96 + 2.4 / double(degrees);
}

}  // namespace

LadderRungs ladder_rungs(const RunConfig& base, const DeviceSpec& device) {
  return device.kind == DeviceKind::cpu ? cpu_rungs(base) : gpu_rungs(base, device);
}

double RungResult::median() const {
  std::vector<double> sorted = tokens_per_second;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double RungResult::half_interval() const {
  const size_t count = tokens_per_second.size();
  if (count < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean = std::accumulate(tokens_per_second.begin(), tokens_per_second.end(), 0.0) / double(count);
  double squares = 0;
  for (double value : tokens_per_second) squares += (value - mean) * (value - mean);
  return student_t(count - 1) * std::sqrt(squares / double(count - 1) / double(count));
}

Parity parity(const RungResult& rung, const RungResult& reference) {
  return {std::abs(rung.loss - reference.loss), std::abs(rung.grad_norm / reference.grad_norm - 1)};
}

const RungResult* Ladder::reference() const {
  for (const RungResult& rung : climb) {
    if (rung.ran()) return &rung;
  }
  return nullptr;
}

Ladder run_ladder(const RunConfig& base, int64_t vocab, const LadderOptions& options) {
  const DeviceSpec device = session_options(base).device;
  const LadderRungs rungs = ladder_rungs(base, device);
  Ladder ladder{.device = device.title,
                .model = describe_model(base, vocab),
                .steps = options.steps,
                .repeats = options.repeats,
                .everything = rungs.everything};
  for (const Rung& rung : rungs.climb) ladder.climb.push_back(run_rung(base, vocab, rung, options));
  for (const Rung& rung : rungs.all_but) ladder.all_but.push_back(run_rung(base, vocab, rung, options));
  return ladder;
}

}  // namespace gradmill
