// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files as bytes: protobuf messages written by hand, framed as records with checksums.
// Field numbers: tensorboard/compat/proto/{event,summary,tensor}.proto and plugins/hparams/{api,plugin_data}.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/record.h"

namespace gradmill::tfevents {

// A protobuf message under construction. An integer that is zero is left out, as proto3 does; the other types also
// stand in oneofs, where absence means something else, and are always written.
class Message {
 public:
  Message& integer(int field, int64_t value);
  Message& boolean(int field, bool value);
  Message& number(int field, double value);
  Message& float32(int field, float value);
  Message& bytes(int field, std::string_view value);
  Message& message(int field, const Message& value) { return bytes(field, value.data()); }
  const std::string& data() const { return data_; }

 private:
  void varint(uint64_t value);
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }

  std::string data_;
};

// Length, its checksum, data, its checksum.
std::string record(std::string_view data);

// Events. `wall_time` in seconds since 1970.
Message file_version(double wall_time);
// Readers drop what they have seen with this step or a later one.
Message session_start(double wall_time, int64_t step);
// `values` are Summary.Value messages.
Message summary(double wall_time, int64_t step, const std::vector<Message>& values);

Message scalar_value(std::string_view tag, double value);
Message text_value(std::string_view tag, std::string_view markdown);
// What the HParams page shows: the experiment's columns, a session's values, its end.
Message hparams_experiment_value(const Hparams& values, const std::vector<std::string>& metric_tags);
Message hparams_start_value(const Hparams& values, double start_time);
Message hparams_end_value(RunStatus status, double end_time);

}  // namespace gradmill::tfevents
