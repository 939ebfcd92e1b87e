// SPDX-License-Identifier: Apache-2.0
// Runs tests for a GPU on one that is on paper: passes if the GPU would have taken everything they asked of it. What
// they compute is not looked at, since nothing is computed.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper {
namespace {

class LooksAtFaults : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    // Comparisons fail as they must; that a test could not go on is something else.
    const std::string message = result.failed() ? result.message() : "";
    if (message.find("C++ exception") != std::string::npos && seen_.insert(message).second) fault(message);
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (faults().size() == before_) return;
    before_ = faults().size();
    ++bad_;
    std::fprintf(stderr, "  in %s.%s\n", test.test_suite_name(), test.name());
  }
  void OnTestProgramEnd(const testing::UnitTest& tests) override {
    const Counts& done = counts();
    std::printf(
        "%d tests on a paper %s: %zu launches with up to %zu bytes of shared memory, %zu products, %zu graphs; "
        "%d tests with faults\n",
        tests.test_to_run_count(), gpu().name.data(), done.launches, done.most_shared, done.products, done.graphs,
        bad_);
  }

 private:
  std::set<std::string> seen_;
  size_t before_ = 0;
  int bad_ = 0;
};

}  // namespace
}  // namespace gradmill::paper

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new gradmill::paper::LooksAtFaults);
  [[maybe_unused]] const int comparisons = RUN_ALL_TESTS();
  const bool nothing_ran = gradmill::paper::counts().launches == 0;
  if (nothing_ran) std::fprintf(stderr, "no kernel was launched: this tested nothing\n");
  return nothing_ran || !gradmill::paper::faults().empty() ? 1 : 0;
}
