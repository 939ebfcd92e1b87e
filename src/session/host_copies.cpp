// SPDX-License-Identifier: Apache-2.0
#include "session/host_copies.h"

#include <cassert>

#include "ops/transfer.h"

namespace gradmill {

Storage move_to_host(ExecContext& ctx, std::span<StateTensor> tensors, bool with_values) {
  size_t bytes = 0;
  for (const StateTensor& tensor : tensors) bytes += align_up(tensor.view.bytes());
  Storage copies(bytes);
  std::byte* next = copies.bytes().data();
  for (StateTensor& tensor : tensors) {
    if (with_values) copy_to_host(ctx, next, tensor.view);
    tensor.view.data = next;
    next += align_up(tensor.view.bytes());
  }
  return copies;
}

void copy_from_host(ExecContext& ctx, std::span<const StateTensor> device, std::span<const StateTensor> host) {
  assert(device.size() == host.size());
  for (size_t i = 0; i < device.size(); ++i) {
    assert(device[i].name == host[i].name && device[i].view.bytes() == host[i].view.bytes());
    copy_to_device(ctx, device[i].view, host[i].view.data);
  }
}

}  // namespace gradmill
