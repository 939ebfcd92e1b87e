// SPDX-License-Identifier: Apache-2.0
// Who computes attention on a GPU: cuDNN, our flash kernel, or the naive baseline; and the workspace that takes.
#pragma once

#include <string>

#include "ops/attention/attention.h"

namespace gradmill {

struct AttentionChoice {
  AttentionBackend backend = AttentionBackend::flash;  // never automatic
  std::string reason;                                  // why it is not the one that was asked for, or preferred
};
// The same for the forward and the backward of an op. May plan with cuDNN: not for the first time during capture.
AttentionChoice choose_attention(ExecContext& ctx, const AttentionArgs& args);

// Bytes of workspace, on paper too: ctx.cuda must be set.
int64_t attention_workspace(ExecContext& ctx, const AttentionArgs& args);
int64_t attention_workspace(ExecContext& ctx, const AttentionGradArgs& args);

AttentionOverwrites attention_overwrites(ExecContext& ctx, const AttentionGradArgs& args);

}  // namespace gradmill
