// SPDX-License-Identifier: Apache-2.0
#include "metrics/tfevents.h"

#include <bit>
#include <span>

#include "core/crc32c.h"

namespace gradmill::tfevents {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied in the machine's byte order");

enum WireType : int { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum TensorType : int { kFloat = 1, kString = 7 };
enum HparamType : int { kStringParam = 1, kBoolParam = 2, kFloatParam = 3 };

template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Rotates and shifts the checksum, as the format requires, so that data which contains checksums is still well
// protected.
uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u;
}

Message event(double wall_time, int64_t step) {
  Message out;
  out.number(1, wall_time).integer(2, step);
  return out;
}

Message tensor(TensorType type, int64_t size) {
  Message out;
  out.integer(1, type).message(2, Message().message(2, Message().integer(1, size)));
  return out;
}

Message plugin_metadata(std::string_view plugin, std::string_view content) {
  Message data;
  data.bytes(1, plugin);
  if (!content.empty()) data.bytes(2, content);
  return Message().message(1, data);
}

Message hparams_value(std::string_view tag, int field, const Message& content) {
  Message out;
  out.bytes(1, tag).message(8, tensor(kFloat, 0));
  out.message(9, plugin_metadata("hparams", Message().message(field, content).data()));
  return out;
}

struct HparamTypeOf {
  int operator()(const std::string&) const { return kStringParam; }
  int operator()(double) const { return kFloatParam; }
  int operator()(bool) const { return kBoolParam; }
};

// The message google.protobuf.Value.
struct WellKnownValue {
  Message operator()(const std::string& value) const { return Message().bytes(3, value); }
  Message operator()(double value) const { return Message().number(2, value); }
  Message operator()(bool value) const { return Message().boolean(4, value); }
};

}  // namespace

void Message::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) data_ += static_cast<char>(value | 0x80);
  data_ += static_cast<char>(value);
}

Message& Message::integer(int field, int64_t value) {
  if (value == 0) return *this;
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

Message& Message::boolean(int field, bool value) {
  key(field, kVarint);
  varint(value ? 1 : 0);
  return *this;
}

Message& Message::number(int field, double value) {
  key(field, kFixed64);
  append_raw(data_, value);
  return *this;
}

Message& Message::float32(int field, float value) {
  key(field, kFixed32);
  append_raw(data_, value);
  return *this;
}

Message& Message::bytes(int field, std::string_view value) {
  key(field, kBytes);
  varint(value.size());
  data_ += value;
  return *this;
}

std::string record(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 16);
  append_raw(out, static_cast<uint64_t>(data.size()));
  append_raw(out, masked_crc(out));
  out += data;
  append_raw(out, masked_crc(data));
  return out;
}

Message file_version(double wall_time) { return event(wall_time, 0).bytes(3, "brain.Event:2"); }

Message session_start(double wall_time, int64_t step) {
  constexpr int64_t kStart = 1;
  return event(wall_time, step).message(7, Message().integer(1, kStart));
}

Message summary(double wall_time, int64_t step, const std::vector<Message>& values) {
  Message out;
  for (const Message& value : values) out.message(1, value);
  return event(wall_time, step).message(5, out);
}

Message scalar_value(std::string_view tag, double value) {
  return Message().bytes(1, tag).float32(2, static_cast<float>(value));
}

Message text_value(std::string_view tag, std::string_view markdown) {
  Message out;
  out.bytes(1, std::string(tag) + "/text_summary").message(8, tensor(kString, 1).bytes(8, markdown));
  return out.message(9, plugin_metadata("text", {}));
}

Message hparams_experiment_value(const Hparams& values, const std::vector<std::string>& metric_tags) {
  Message experiment;
  for (const auto& [name, value] : values) {
    experiment.message(4, Message().bytes(1, name).integer(4, std::visit(HparamTypeOf(), value)));
  }
  for (const std::string& tag : metric_tags) {
    experiment.message(5, Message().message(1, Message().bytes(2, tag)));
  }
  return hparams_value("_hparams_/experiment", 2, experiment);
}

Message hparams_start_value(const Hparams& values, double start_time) {
  Message info;
  for (const auto& [name, value] : values) {
    info.message(1, Message().bytes(1, name).message(2, std::visit(WellKnownValue(), value)));
  }
  return hparams_value("_hparams_/session_start_info", 3, info.number(5, start_time));
}

Message hparams_end_value(RunStatus status, double end_time) {
  constexpr int64_t kSuccess = 1, kFailure = 2;
  Message info;
  info.integer(1, has_ended(status) ? kSuccess : kFailure).number(2, end_time);
  return hparams_value("_hparams_/session_end_info", 4, info);
}

}  // namespace gradmill::tfevents
