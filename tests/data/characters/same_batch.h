// SPDX-License-Identifier: Apache-2.0
// Compares two batches bit for bit.
#pragma once

#include <gtest/gtest.h>

#include "data/batch.h"

namespace gradmill::test {

inline void expect_same(const StepBatch& a, const StepBatch& b) {
  ASSERT_EQ(a.step, b.step);
  ASSERT_EQ(a.num_targets, b.num_targets);
  ASSERT_EQ(a.micro.size(), b.micro.size());
  for (size_t i = 0; i < a.micro.size(); ++i) {
    ASSERT_EQ(a.micro[i].tokens, b.micro[i].tokens);
    ASSERT_EQ(a.micro[i].targets, b.micro[i].targets);
    ASSERT_EQ(a.micro[i].positions, b.micro[i].positions);
    ASSERT_EQ(a.micro[i].cu_seqlens, b.micro[i].cu_seqlens);
    ASSERT_EQ(a.micro[i].num_seqs, b.micro[i].num_seqs);
    ASSERT_EQ(a.micro[i].num_targets, b.micro[i].num_targets);
    ASSERT_EQ(a.micro[i].token_base, b.micro[i].token_base);
  }
}

}  // namespace gradmill::test
