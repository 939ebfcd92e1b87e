// SPDX-License-Identifier: Apache-2.0
// Instructions with which a kernel ends itself.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/machine.h"

namespace gradmill::paper::ptx {

bool decode_trap(Decoder& decoder) {
  if (decoder.s.parts[0] != "trap") return false;
  decoder.i.run = [](Warp& warp, const Instruction&, uint32_t mask) {
    fail(warp, mask, "trap: the kernel gives up here");
  };
  return true;
}

}  // namespace gradmill::paper::ptx
