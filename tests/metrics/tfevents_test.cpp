// SPDX-License-Identifier: Apache-2.0
#include "metrics/tfevents.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gradmill::tfevents {
namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string out;
  for (int value : values) out += static_cast<char>(value);
  return out;
}

template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), 0);
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// CRC-32C bit by bit, then the mask of the record format; shares no code with the implementation.
uint32_t slow_masked_crc(const std::string& data) {
  uint32_t crc = 0xffffffffu;
  for (char byte : data) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

TEST(TfEvents, ARecordIsFramedByChecksums) {
  const std::string data = "123456789";
  const std::string length = raw(uint64_t{9});
  EXPECT_EQ(record(data), length + raw(slow_masked_crc(length)) + data + raw(slow_masked_crc(data)));
  // 0xe3069283 is the known checksum of the digits.
  EXPECT_EQ(record(data).substr(12 + 9), raw(((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u));
}

TEST(TfEvents, TheFirstEventNamesTheVersion) {
  EXPECT_EQ(file_version(1.5).data(), bytes_of({0x09}) + raw(1.5) + bytes_of({0x1a, 13}) + "brain.Event:2");
}

TEST(TfEvents, AScalarEvent) {
  // Value{tag = "a", simple_value = 0.5} in Summary{value} in Event{wall_time = 2, step = 300}
  const std::string value = bytes_of({0x0a, 1}) + "a" + bytes_of({0x15}) + raw(0.5f);
  const std::string inner = bytes_of({0x0a, static_cast<int>(value.size())}) + value;
  const std::string expected = bytes_of({0x09}) + raw(2.0) + bytes_of({0x10, 0xac, 0x02}) +
                               bytes_of({0x2a, static_cast<int>(inner.size())}) + inner;
  EXPECT_EQ(summary(2.0, 300, {scalar_value("a", 0.5)}).data(), expected);
}

TEST(TfEvents, ARestartNamesTheStep) {
  EXPECT_EQ(session_start(0.0, 7).data(), bytes_of({0x09}) + raw(0.0) + bytes_of({0x10, 7, 0x3a, 2, 0x08, 1}));
  EXPECT_EQ(session_start(0.0, 0).data(), bytes_of({0x09}) + raw(0.0) + bytes_of({0x3a, 2, 0x08, 1}));
}

TEST(TfEvents, AText) {
  const std::string tensor = bytes_of({0x08, 7, 0x12, 4, 0x12, 2, 0x08, 1, 0x42, 2}) + "hi";
  const std::string plugin = bytes_of({0x0a, 6, 0x0a, 4}) + "text";
  EXPECT_EQ(text_value("s", "hi").data(),
            bytes_of({0x0a, 14}) + "s/text_summary" + bytes_of({0x42, 12}) + tensor + bytes_of({0x4a, 8}) + plugin);
}

TEST(TfEvents, HyperParametersOfEveryType) {
  const Hparams values = {{"b", false}, {"n", 0.0}, {"s", std::string()}};
  const std::string start = hparams_start_value(values, 3.0).data();
  // Map entries {key, Value}: zero, false and empty values must be present, or they would read as null.
  const std::string entries = bytes_of({0x0a, 7, 0x0a, 1}) + "b" + bytes_of({0x12, 2, 0x20, 0}) +
                              bytes_of({0x0a, 14, 0x0a, 1}) + "n" + bytes_of({0x12, 9, 0x11}) + raw(0.0) +
                              bytes_of({0x0a, 7, 0x0a, 1}) + "s" + bytes_of({0x12, 2, 0x1a, 0});
  EXPECT_NE(start.find(entries + bytes_of({0x29}) + raw(3.0)), std::string::npos);
  EXPECT_NE(start.find("_hparams_/session_start_info"), std::string::npos);

  const std::string experiment = hparams_experiment_value(values, {"eval/loss"}).data();
  EXPECT_NE(experiment.find(bytes_of({0x22, 5, 0x0a, 1}) + "b" + bytes_of({0x20, 2})), std::string::npos);
  EXPECT_NE(experiment.find(bytes_of({0x22, 5, 0x0a, 1}) + "n" + bytes_of({0x20, 3})), std::string::npos);
  EXPECT_NE(experiment.find(bytes_of({0x22, 5, 0x0a, 1}) + "s" + bytes_of({0x20, 1})), std::string::npos);
  EXPECT_NE(experiment.find(bytes_of({0x2a, 13, 0x0a, 11, 0x12, 9}) + "eval/loss"), std::string::npos);

  const std::string end = hparams_end_value(RunStatus::failed, 4.0).data();
  EXPECT_NE(end.find(bytes_of({0x22, 11, 0x08, 2, 0x11}) + raw(4.0)), std::string::npos);
}

}  // namespace
}  // namespace gradmill::tfevents
