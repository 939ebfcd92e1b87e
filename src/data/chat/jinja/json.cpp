// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/chat/jinja/python.h"
#include "data/chat/jinja/text.h"
#include "core/utf8.h"

namespace gradmill::jinja {
namespace {

constexpr size_t kMaxDepth = 64;

// Receives the parser's events. Lists and dicts stay on a stack until they are complete, because values are immutable.
class Builder {
 public:
  bool null() { return add(Value()); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse_integer();
    return add(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos) refuse_integer();
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool key(std::string& value) {
    open_.back().key = std::move(value);
    return true;
  }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    throw Fault(fmt::format("not valid JSON at byte {}", position));
  }

  Value result;

 private:
  struct Open {
    bool is_dict = false;
    std::string key;
    Dict dict;
    std::vector<Value> items;
  };

  [[noreturn]] static void refuse_integer() { throw Fault("JSON with an integer of more than 64 bits"); }

  bool open(bool is_dict) {
    if (open_.size() == kMaxDepth) throw Fault(fmt::format("JSON nested deeper than {}", kMaxDepth));
    open_.emplace_back().is_dict = is_dict;
    return true;
  }
  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(done.is_dict ? make_dict(std::move(done.dict), {}) : make_list(std::move(done.items), {}));
  }
  bool add(Value value) {
    if (open_.empty())
      result = std::move(value);
    else if (open_.back().is_dict)
      open_.back().dict.insert(open_.back().key, std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<Open> open_;
};

class Writer {
 public:
  Writer(const JsonStyle& style, Work& work) : style_(style), work_(work) {}

  void write(const Value& value) {
    work_.spend(1);
    if (value.is_text()) return write_text(value.text());
    if (value.is_list()) return write_list(value.items());
    if (value.is_dict()) return write_dict(value.dict());
    if (value.is_none() || value.is_number())
      text += scalar(value);
    else
      throw Fault(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
  }

  std::string text;

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return fmt::format("{}", value.integer());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return number_text(number);
  }

  void new_line() {
    if (!style_.indent) return;
    work_.spend_bytes(style_.indent->size() * level_);
    text += '\n';
    for (size_t i = 0; i < level_; ++i) text += *style_.indent;
  }

  void write_list(const std::vector<Value>& items) {
    text += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separate();
      new_line();
      write(items[i]);
    }
    --level_;
    if (!items.empty()) new_line();
    text += ']';
  }

  void write_dict(const Dict& dict) {
    auto entries = dict.entries;
    work_.spend_values(entries.size());
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries,
                               [&](const auto& a, const auto& b) { return order(a.first, b.first, "<", work_) < 0; });
    }
    text += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) separate();
      new_line();
      write_text(key_text(entries[i].first));
      text += style_.key_separator;
      write(entries[i].second);
    }
    --level_;
    if (!entries.empty()) new_line();
    text += '}';
  }

  void separate() {
    work_.spend_bytes(style_.item_separator.size() + style_.key_separator.size());
    text += style_.item_separator;
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none() || key.is_number()) return scalar(key);
    throw Fault(fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }

  void write_text(std::string_view value) {
    work_.spend_bytes(value.size());
    text += '"';
    for (size_t i = 0; i < value.size();) {
      const auto byte = static_cast<unsigned char>(value[i]);
      size_t size = 1;
      if (byte < 0x20 || byte == '"' || byte == '\\') {
        escape(byte);
      } else if (byte < 0x80 || !style_.ascii) {
        text += value[i];
      } else {
        const auto letter = decode_utf8(value.substr(i)).value_or(CodePoint{0xFFFD, 1});
        escape_code_point(static_cast<uint32_t>(letter.value));
        size = letter.num_bytes;
      }
      i += size;
    }
    text += '"';
  }

  void escape(unsigned char byte) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    const size_t found = kPlain.find(static_cast<char>(byte));
    if (found == std::string_view::npos)
      text += fmt::format("\\u{:04x}", byte);
    else
      (text += '\\') += kNames[found];
  }

  void escape_code_point(uint32_t code) {
    if (code >= 0x10000) {
      text += fmt::format("\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10));
      code = 0xDC00 + ((code - 0x10000) & 0x3FF);
    }
    text += fmt::format("\\u{:04x}", code);
  }

  const JsonStyle& style_;
  Work& work_;
  size_t level_ = 0;
};

}  // namespace

Value parse_json(std::string_view text) {
  // The library takes a NUL byte for the end of the input.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Fault(fmt::format("not valid JSON at byte {}", nul));
  }
  Builder builder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.result);
}

std::string to_json(const Value& value, const JsonStyle& style, Work& work) {
  Writer writer(style, work);
  writer.write(value);
  return std::move(writer.text);
}

}  // namespace gradmill::jinja
