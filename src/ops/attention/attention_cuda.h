// SPDX-License-Identifier: Apache-2.0
// Chooses the implementation of attention on a GPU (cuDNN, our flash kernels, or the naive baseline) and reports its
// workspace.
#pragma once

#include <string>

#include "ops/attention/attention.h"

namespace gradmill {

struct AttentionChoice {
  AttentionBackend backend = AttentionBackend::flash;  // never automatic
  std::string reason;                                  // why the requested or preferred implementation is not used
};
// The same for the forward and the backward of an op. May plan with cuDNN, so the first call must not be during
// capture.
AttentionChoice choose_attention(ExecContext& ctx, const AttentionArgs& args);

// Bytes of workspace, also during a dry run; ctx.cuda must be set.
int64_t attention_workspace(ExecContext& ctx, const AttentionArgs& args);
int64_t attention_workspace(ExecContext& ctx, const AttentionGradArgs& args);

AttentionOverwrites attention_overwrites(ExecContext& ctx, const AttentionGradArgs& args);

}  // namespace gradmill
