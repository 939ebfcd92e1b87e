// SPDX-License-Identifier: Apache-2.0
// Runs GPU tests on the paper GPU. Anything that the GPU would refuse, and any error of its kernels, fails the test in
// which it happened.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "paper_gpu/executions.h"
#include "paper_gpu/paper_gpu.h"
#include "support/tensor_dump.h"

namespace gradmill::paper {
namespace {

class LooksAtFaults : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo&) override {
    const std::vector<std::string> found = take_faults();
    if (found.empty()) return;
    constexpr size_t kShown = 3;
    std::string text;
    for (size_t n = 0; n < std::min(kShown, found.size()); ++n) text += "\n  " + found[n];
    ADD_FAILURE() << "the paper GPU found " << found.size() << " faults:" << text;
  }
  void OnTestProgramEnd(const testing::UnitTest& tests) override {
    const Counts& done = counts();
    fmt::print("{} tests on a paper {}: {} launches with up to {} bytes of shared memory, {} products, {} graphs\n",
               tests.test_to_run_count(), gpu().name, done.launches, done.most_shared, done.products, done.graphs);
    const ExecutionTotals& run = execution_totals();
    fmt::print("{:.3g} lane instructions in {:.1f} s of CPU, {:.3g} a second\n", double(run.lane_instructions),
               run.cpu_seconds, run.cpu_seconds > 0 ? double(run.lane_instructions) / run.cpu_seconds : 0.0);
  }
};

// Without computed results, comparisons must fail and are ignored. What counts is whether a test could run to its end.
class LooksAtExceptions : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    const std::string message = result.failed() ? result.message() : "";
    if (message.find("C++ exception") != std::string::npos) fault(message);
  }
};

}  // namespace
}  // namespace gradmill::paper

std::string gradmill::test::take_why_inexact() { return gradmill::paper::take_inexact(); }

int main(int argc, char** argv) {
  using namespace gradmill::paper;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (!computes()) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new LooksAtExceptions);
  }
  if (computes()) listeners.Append(new LooksAtFaults);
  const int status = RUN_ALL_TESTS();
  const bool nothing_ran = counts().launches == 0;
  if (nothing_ran) std::fprintf(stderr, "no kernel was launched: this tested nothing\n");
  if (nothing_ran) return 1;
  return computes() ? status : !faults().empty();
}
