// SPDX-License-Identifier: Apache-2.0
#include "data/records/jsonl_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <new>

#include "core/error.h"
#include "data/records/line_reader.h"

namespace gradmill {
namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;

static_assert(kReadAhead >= simdjson::SIMDJSON_PADDING);

constexpr int kMaxDepth = 64;
constexpr std::string_view kBlank = " \t\r\n";

error_code check(ondemand::value value, int depth);

error_code check_array(ondemand::value& value, int depth) {
  ondemand::array array;
  if (const error_code error = value.get_array().get(array)) return error;
  for (auto element : array) {
    ondemand::value inner;
    if (const error_code error = element.get(inner)) return error;
    if (const error_code error = check(inner, depth + 1)) return error;
  }
  return simdjson::SUCCESS;
}

error_code check_object(ondemand::value& value, int depth) {
  ondemand::object object;
  if (const error_code error = value.get_object().get(object)) return error;
  for (auto member : object) {
    std::string_view key;
    if (const error_code error = member.unescaped_key().get(key)) return error;
    ondemand::value inner;
    if (const error_code error = member.value().get(inner)) return error;
    if (const error_code error = check(inner, depth + 1)) return error;
  }
  return simdjson::SUCCESS;
}

// Checks a skipped value: the library parses only requested values, and a later error could not name the line.
error_code check(ondemand::value value, int depth) {
  if (depth > kMaxDepth) return simdjson::DEPTH_ERROR;
  ondemand::json_type type;
  if (const error_code error = value.type().get(type)) return error;
  switch (type) {
    case ondemand::json_type::array:
      return check_array(value, depth);
    case ondemand::json_type::object:
      return check_object(value, depth);
    case ondemand::json_type::string:
      return value.get_string().error();
    case ondemand::json_type::number:
      return value.get_double().error();  // accepts integers of any length
    case ondemand::json_type::boolean:
      return value.get_bool().error();
    case ondemand::json_type::null:
      break;
  }
  bool is_null = false;
  if (const error_code error = value.is_null().get(is_null)) return error;
  return is_null ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
}

static_assert(kMaxDepth == 64 && kMaxRecordFields == 1024, "the messages contain these numbers");

std::string_view describe(error_code error) {
  switch (error) {
    case simdjson::INCORRECT_TYPE:
      return "a line must hold a JSON object, {...}";
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "broken JSON: something is not closed, or follows the object";
    case simdjson::UNCLOSED_STRING:
      return "broken JSON: a string is not closed";
    case simdjson::UNESCAPED_CHARS:
      return "broken JSON: a control character in a string";
    case simdjson::STRING_ERROR:
      return "broken JSON: a string with a bad escape";
    case simdjson::NUMBER_ERROR:
      return "broken JSON: a bad number";
    case simdjson::TRAILING_CONTENT:
      return "broken JSON: something follows the object";
    case simdjson::DEPTH_ERROR:
      return "JSON nested deeper than 64";
    case simdjson::CAPACITY:
      return "more than 1024 fields";
    case simdjson::UTF8_ERROR:
      return "not valid UTF-8";
    default:
      return "broken JSON: a comma, colon, quote or value is missing or misspelt";
  }
}

}  // namespace

struct JsonlReader::State {
  State(std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad_records)
      : lines(std::move(source), options.max_record_bytes),
        max_bytes(options.max_record_bytes),
        fields(options.fields),
        bad(bad_records) {}

  bool wants(std::string_view name) const {
    return fields.empty() || std::ranges::any_of(fields, [&](const FieldRequest& field) { return field.name == name; });
  }
  error_code read_value(Record& record, std::string_view name, ondemand::document& document, ondemand::value value);
  error_code read_object(Record& record, std::string_view text);
  bool read_line(Record& record, const TextLine& line);

  LineReader lines;
  int64_t max_bytes;
  std::vector<FieldRequest> fields;
  BadRecords& bad;
  ondemand::parser parser;
};

error_code JsonlReader::State::read_value(Record& record, std::string_view name, ondemand::document& document,
                                          ondemand::value value) {
  ondemand::json_type type;
  if (const error_code error = value.type().get(type)) return error;
  if (!wants(name)) return check(value, 1);
  record.erase(name);
  if (type == ondemand::json_type::null) return check(value, 1);
  RecordField& field = record.add(name);
  if (type == ondemand::json_type::string) {
    std::string_view text;
    if (const error_code error = value.get_string().get(text)) return error;
    field.value = text;
    return simdjson::SUCCESS;
  }
  const char* const begin = value.raw_json_token().data();
  if (const error_code error = check(value, 1)) return error;
  const char* end = nullptr;  // the comma or brace after the value
  if (const error_code error = document.current_location().get(end)) return error;
  std::string_view raw(begin, static_cast<size_t>(end - begin));
  raw.remove_suffix(raw.size() - 1 - raw.find_last_not_of(kBlank));
  field.value = raw;
  field.is_json = true;
  return simdjson::SUCCESS;
}

error_code JsonlReader::State::read_object(Record& record, std::string_view text) {
  ondemand::document document;
  ondemand::object object;
  const simdjson::padded_string_view padded(text, text.size() + kReadAhead);
  if (const error_code error = parser.iterate(padded).get(document)) return error;
  if (const error_code error = document.get_object().get(object)) return error;
  size_t num_fields = 0;
  for (auto member : object) {
    if (++num_fields > kMaxRecordFields) return simdjson::CAPACITY;
    std::string_view name;
    if (const error_code error = member.unescaped_key().get(name)) return error;
    ondemand::value value;
    if (const error_code error = member.value().get(value)) return error;
    const error_code error = read_value(record, name, document, value);
    // The library uses this code for a misspelt literal; for the whole line it has another meaning.
    if (error == simdjson::INCORRECT_TYPE) return simdjson::TAPE_ERROR;
    if (error) return error;
  }
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  return at_end ? simdjson::SUCCESS : simdjson::TRAILING_CONTENT;
}

// Returns false for a bad record, which has been reported.
bool JsonlReader::State::read_line(Record& record, const TextLine& line) {
  const auto refuse = [&](BadRecord kind, std::string_view what) {
    bad.report(kind, lines.path(), line.number, what);
    return false;
  };
  if (line.too_long) return refuse(BadRecord::too_long, fmt::format("longer than {} bytes", max_bytes));
  record.clear();
  record.file = lines.path().native();
  record.line = line.number;
  if (const error_code error = read_object(record, line.text)) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    return refuse(error == simdjson::UTF8_ERROR ? BadRecord::not_utf8 : BadRecord::malformed, describe(error));
  }
  for (const FieldRequest& field : fields) {
    if (!field.required || record.find(field.name) != nullptr) continue;
    return refuse(BadRecord::missing_field, fmt::format("no field '{}'", field.name));
  }
  return true;
}

JsonlReader::JsonlReader(std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad)
    : state_(std::make_unique<State>(std::move(source), options, bad)) {}
JsonlReader::~JsonlReader() = default;

bool JsonlReader::next(Record& record) {
  for (TextLine line; state_->lines.next(line);) {
    const bool blank = !line.too_long && line.text.find_first_not_of(kBlank) == std::string_view::npos;
    if (!blank && state_->read_line(record, line)) return true;
  }
  return false;
}

}  // namespace gradmill
