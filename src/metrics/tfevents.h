// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files as bytes: hand-written protobuf messages, framed as records with checksums. For the field
// numbers see tensorboard/compat/proto/{event,summary,tensor}.proto and plugins/hparams/{api,plugin_data}.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/record.h"

namespace gradmill::tfevents {

// A protobuf message under construction. Integers that are zero are omitted, as in proto3. Fields of other types may be
// members of a oneof, where absence has a meaning, so they are always written.
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

// The length, its checksum, the data, its checksum.
std::string record(std::string_view data);

// Builders of events. `wall_time` is in seconds since 1970.
Message file_version(double wall_time);
// Makes readers drop everything they have read with this step or a later one.
Message session_start(double wall_time, int64_t step);
// `values` are Summary.Value messages.
Message summary(double wall_time, int64_t step, const std::vector<Message>& values);

Message scalar_value(std::string_view tag, double value);
Message text_value(std::string_view tag, std::string_view markdown);
// Contents of the HParams page: the experiment's columns, the values of a session, and its end.
Message hparams_experiment_value(const Hparams& values, const std::vector<std::string>& metric_tags);
Message hparams_start_value(const Hparams& values, double start_time);
Message hparams_end_value(RunStatus status, double end_time);

}  // namespace gradmill::tfevents
