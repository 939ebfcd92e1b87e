// SPDX-License-Identifier: Apache-2.0
// Two hundred kills, half of them inside a save.
#include "cli/kill_test.h"

namespace gradmill::test {
namespace {

TEST_F(KillTest, TwoHundredKills) {
  finish("whole");
  const std::string expected = result("whole");
  ASSERT_FALSE(expected.empty());
  for (uint32_t seed = 1; seed <= 25; ++seed) expect_survives("run" + std::to_string(seed), 8, seed, expected);
}

}  // namespace
}  // namespace gradmill::test
