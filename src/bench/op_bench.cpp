// SPDX-License-Identifier: Apache-2.0
#include "bench/op_bench.h"

#include <algorithm>

#include "ops/convert.h"
#include "ops/init.h"
#include "ops/matmul/matmul.h"
#include "run/run_options.h"
#include "bench/step_bench.h"
#include "report/text_table.h"

namespace gradmill {
namespace {

// Normally distributed values, as in training: on zeros a GPU draws less power and runs faster than on real data.
TensorView make_operand(ExecContext& ctx, int64_t size, DType dtype, uint32_t number) {
  const TensorView operand = ctx.alloc(ctx.persistent, {size, size}, dtype, "operand");
  const ArenaScope scope(ctx.scratch);
  const bool wide = dtype == DType::fp32;
  const TensorView values = wide ? operand : ctx.alloc_scratch({size, size}, DType::fp32, "values");
  init_values(ctx, {.to = values, .std = 1, .param = number});
  if (!wide) convert(ctx, {.from = values, .to = operand});
  return operand;
}

// Seconds of one GEMM; a dry run only measures its memory.
double time_product(ExecContext& ctx, Runtime& runtime, int64_t size, DType dtype) {
  constexpr int kWarmUp = 3, kTimed = 10;
  const MatmulArgs args{.a = make_operand(ctx, size, dtype, 0),
                        .b = make_operand(ctx, size, dtype, 1),
                        .c = ctx.alloc(ctx.persistent, {size, size}, dtype, "product"),
                        .transpose_b = true};
  for (int i = 0; i < kWarmUp; ++i) matmul(ctx, args);
  if (ctx.dry) return 0;
  Ledger ledger;
  std::unique_ptr<OpObserver> profiler = runtime.make_profiler(ledger);
  ctx.observer = profiler.get();
  for (int i = 0; i < kTimed; ++i) matmul(ctx, args);
  ctx.observer = nullptr;
  profiler.reset();  // waits for the times
  return ledger.total().measured / kTimed;
}

double measure_product(const SessionOptions& options, Runtime& runtime, int64_t size) {
  const auto make_context = [&](bool dry) {
    ExecContext ctx;
    ctx.device = options.device;
    ctx.kernels = options.kernels;
    ctx.dry = dry;
    runtime.attach(ctx);
    return ctx;
  };
  ExecContext paper = make_context(true), real = make_context(false);
  time_product(paper, runtime, size, options.dtype);
  const size_t persistent = paper.persistent.high_water(), scratch = paper.scratch.high_water();
  const std::span<std::byte> slab = runtime.allocate(persistent + scratch);
  real.persistent.attach(slab.first(persistent));
  real.scratch.attach(slab.subspan(persistent));
  return time_product(real, runtime, size, options.dtype);
}

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::vector<std::string> row_of(const std::string& name, const Ledger::Line& line, const OpBench& bench, double total) {
  const double calls = double(line.calls), steps = double(bench.steps);
  const double bandwidth = line.bytes / line.measured, flops = line.flops / line.measured;
  const double by_bytes = line.bytes / bench.ceilings.bandwidth;
  const double at_best = line.matrix ? std::max(by_bytes, line.flops / bench.ceilings.matrix_flops) : by_bytes;
  return {name,
          fmt::format("{:g}", calls / steps),
          fmt::format("{:.1f}", line.measured / calls * 1e6),
          fmt::format("{:.0f}", bandwidth / 1e9),
          percent(bandwidth / bench.ceilings.bandwidth),
          line.matrix ? fmt::format("{:.3g}", flops / 1e12) : "-",
          line.matrix ? percent(flops / bench.ceilings.matrix_flops) : "-",
          fmt::format("{:.1f}%", line.measured / total * 100),
          fmt::format("{:.3f}", std::max(0.0, line.measured - at_best) / steps * 1e3)};
}

}  // namespace

Ceilings measure_ceilings(const SessionOptions& options) {
  const std::unique_ptr<Runtime> runtime = make_runtime(options);
  Ceilings ceilings{.bandwidth = runtime->measure_copy_bandwidth(),
                    .product_size = options.device.kind == DeviceKind::cpu ? 1024 : 8192};
  const double size = double(ceilings.product_size);
  ceilings.matrix_flops = 2 * size * size * size / measure_product(options, *runtime, ceilings.product_size);
  return ceilings;
}

OpBench bench_ops(RunConfig config, int64_t vocab, int64_t steps) {
  const SessionOptions options = session_options(config);
  config.training.batch_size = options.train_seqs;
  config.training.micro_batch_size = 0;
  OpBench bench{.device = options.device.title,
                .precision = std::string(options.kernels.tf32 ? "tf32" : name_of(options.dtype)),
                .ceilings = measure_ceilings(options),
                .steps = steps};
  bench.step_ms = bench_steps(config, vocab, {.steps = steps}).median_ms;
  StepBenchResult profiled = bench_steps(config, vocab, {.steps = steps, .profile = true, .by_shape = true});
  bench.ledger = std::move(profiled.ledger);
  bench.notes = std::move(profiled.notes);
  return bench;
}

std::string describe(const OpBench& bench) {
  std::vector<std::pair<std::string, Ledger::Line>> lines(bench.ledger.lines().begin(), bench.ledger.lines().end());
  std::sort(lines.begin(), lines.end(),
            [](const auto& a, const auto& b) { return a.second.measured > b.second.measured; });
  const double total = bench.ledger.total().measured;
  std::vector<std::vector<std::string>> rows = {
      {"op", "calls", "us per call", "GB/s", "of copy", "TFLOP/s", "of GEMM", "share", "to gain, ms"}};
  for (const auto& [name, line] : lines) rows.push_back(row_of(name, line, bench, total));
  const double ops_ms = total / double(bench.steps) * 1e3;
  std::string text = fmt::format("{}: copies {:.0f} GB/s, multiplies {}x{} {} at {:.3g} TFLOP/s\n\n", bench.device,
                                 bench.ceilings.bandwidth / 1e9, bench.ceilings.product_size,
                                 bench.ceilings.product_size, bench.precision, bench.ceilings.matrix_flops / 1e12);
  text += markdown_table(rows);
  return text +
         fmt::format(
             "\nThe ops take {:.3f} ms together, a whole step {:.3f} ms. A step is one micro-batch and one update. "
             "GEMMs are m x n x k, transposed operands marked t.\nTo gain: the time beyond what the op's bytes and "
             "FLOPs would take at those two rates. GB/s counts each byte that must be moved once, so caches can "
             "give more than 100%.\n",
             ops_ms, bench.step_ms);
}

}  // namespace gradmill
