// SPDX-License-Identifier: Apache-2.0
#include "session/host_copies.h"

#include <cstring>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class HostCopies : public OpTest {
 protected:
  // As optimisers may keep them: of different sizes and types.
  std::vector<StateTensor> state(uint8_t first) {
    std::vector<StateTensor> tensors = {{"wide", tensor({70, 5}, DType::fp32)},
                                        {"codes", tensor({1027}, DType::int8)},
                                        {"row", tensor({3}, DType::bf16)},
                                        {"scales", tensor({9}, DType::fp32)}};
    for (const StateTensor& each : tensors) std::memset(each.view.data, first++, each.view.bytes());
    return tensors;
  }
  static std::string bytes(const TensorView& view) { return {static_cast<const char*>(view.data), view.bytes()}; }
};

TEST_P(HostCopies, AnySizeAndTypeComesAndGoes) {
  const std::vector<StateTensor> device = state(1), other = state(50);
  std::vector<StateTensor> host = device;
  const Storage copies = move_to_host(ctx_, host, true);
  for (size_t i = 0; i < device.size(); ++i) {
    EXPECT_NE(host[i].view.data, device[i].view.data);
    EXPECT_EQ(host[i].view.shape, device[i].view.shape);
    EXPECT_EQ(bytes(host[i].view), bytes(device[i].view)) << host[i].name;
  }
  copy_from_host(ctx_, other, host);
  for (size_t i = 0; i < device.size(); ++i) EXPECT_EQ(bytes(other[i].view), bytes(device[i].view)) << host[i].name;
}

TEST_P(HostCopies, WithoutValuesTheyAreZeros) {
  std::vector<StateTensor> host = state(1);
  const Storage copies = move_to_host(ctx_, host, false);
  for (const StateTensor& each : host) EXPECT_EQ(bytes(each.view), std::string(each.view.bytes(), '\0'));
}

INSTANTIATE_TEST_SUITE_P(Session, HostCopies, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
