// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/executions.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <string_view>

#include "paper_gpu/launch_report.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/ptx/counts.h"
#include "paper_gpu/ptx/exactness.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

// The index in the list of the variable's value. Ends the program if it is not in the list.
size_t chosen(const char* variable, std::initializer_list<std::string_view> names) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return 0;
  size_t n = 0;
  for (const std::string_view name : names) {
    if (name == text) return n;
    ++n;
  }
  std::fprintf(stderr, "%s=%s: must be one of", variable, text);
  for (const std::string_view name : names) std::fprintf(stderr, " %.*s", int(name.size()), name.data());
  std::fprintf(stderr, "\n");
  std::_Exit(2);
}

ptx::RunOptions options_of_environment() {
  ptx::RunOptions options;
  options.arrival = static_cast<ptx::Arrival>(chosen("PAPER_ARRIVAL", {"late", "early", "shuffled"}));
  options.order = static_cast<ptx::Order>(chosen("PAPER_ORDER", {"ascending", "descending", "shuffled"}));
  options.counts = reports_launches() || model::models_time();
  options.checks = chosen("PAPER_CHECKS", {"on", "off"}) == 0;
  if (const char* const seed = std::getenv("PAPER_SEED")) options.seed = static_cast<uint32_t>(std::atoi(seed));
  return options;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::FILE* file_of(const char* variable) {
  const char* const path = std::getenv(variable);
  return path != nullptr ? std::fopen(path, "a") : nullptr;
}

void write_coverage(const char* what, const std::string& kernel) {
  static std::FILE* const file = file_of("PAPER_COVERAGE");
  static std::set<std::string> written;
  if (file == nullptr || !written.insert(what + kernel).second) return;
  std::fprintf(file, "%s %s %s\n", gpu().name.data(), what, kernel.c_str());
  std::fflush(file);
}

ExecutionTotals& totals() {
  static ExecutionTotals all;
  return all;
}

}  // namespace

void execute(const ptx::Kernel& kernel, const ptx::Launch& launch, const std::vector<std::byte>& params) {
  static const ptx::RunOptions options = options_of_environment();
  write_coverage("ran", kernel.name);
  const double begin = cpu_seconds();
  if (!computes()) return take_time(model::sampled_seconds(kernel, launch, params));
  ptx::Counts counts;
  if (model::models_time()) counts.extents = model::extents_of(params);
  const std::string finding = ptx::run(kernel, launch, params, options, &counts);
  if (!finding.empty()) fault(finding);
  note_inexact(ptx::why_inexact(kernel));
  model::models_time() ? take_time(model::seconds_of(kernel, launch, counts)) : report_launch(kernel, launch, counts);
  ++totals().launches;
  totals().lane_instructions += counts.issued.lane_instructions;
  totals().cpu_seconds += cpu_seconds() - begin;
}

void known_kernel(const std::string& name) { write_coverage("is-there", name); }

const ExecutionTotals& execution_totals() { return totals(); }

}  // namespace gradmill::paper
