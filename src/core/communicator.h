// SPDX-License-Identifier: Apache-2.0
// Communicator: what the ranks of one training do together. With one rank every call is done at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exec_context.h"

namespace gradmill {

// All ranks make the same calls in the same order. Calls on tensors are enqueued like ops: they see what ops before
// them wrote, and ops after them see their results. Calls on values of the host return when all ranks have made them.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool is_first() const { return rank() == 0; }

  // The sum over all ranks, in place: of fp32 values, or of one double in device memory.
  virtual void all_reduce(ExecContext& ctx, const TensorView& values) = 0;
  virtual void all_reduce(ExecContext& ctx, double* value) = 0;
  // `all` is cut into size() parts of equal length: `own` becomes the sum over all ranks of part rank().
  virtual void reduce_scatter(ExecContext& ctx, const TensorView& all, const TensorView& own) = 0;
  // The other way round: part r of `all` becomes rank r's `own`.
  virtual void all_gather(ExecContext& ctx, const TensorView& own, const TensorView& all) = 0;
  // Every rank gets the values of rank `root`.
  virtual void broadcast(ExecContext& ctx, const TensorView& values, int root) = 0;

  // The sum over all ranks, added in the order of the ranks.
  virtual double sum(double value) = 0;
  // Whether it is true on any rank.
  virtual bool any(bool value) = 0;
  // Rank 0's value.
  virtual int64_t agree(int64_t value) = 0;
};

// A training of one rank. It has no state: all sessions may share it.
Communicator& single_rank();

}  // namespace gradmill
