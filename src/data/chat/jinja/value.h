// SPDX-License-Identifier: Apache-2.0
// Value: a value in a template, with Python's semantics. Immutable except for namespaces, so that a value cannot
// contain itself. Cheap to copy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/jinja/work.h"

namespace gradmill::jinja {

struct List;
struct Dict;
struct Namespace;
struct LoopState;
struct Builtin;
struct Callable;
struct MacroSignature;
struct Scope;

struct None {};
// A missing name or member; `what` describes it.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
using Text = std::shared_ptr<const std::string>;  // valid UTF-8

class Value {
 public:
  Value() : store_(None{}) {}
  Value(bool value) : store_(value) {}
  Value(int value) : store_(int64_t{value}) {}
  Value(int64_t value) : store_(value) {}
  Value(double value) : store_(value) {}
  Value(std::string value) : store_(std::make_shared<const std::string>(std::move(value))) {}
  Value(std::string_view value) : Value(std::string(value)) {}
  Value(const char* value) : Value(std::string(value)) {}
  Value(std::shared_ptr<const List> value) : store_(std::move(value)) {}
  Value(std::shared_ptr<const Dict> value) : store_(std::move(value)) {}
  Value(std::shared_ptr<const LoopState> value) : store_(std::move(value)) {}
  Value(std::shared_ptr<const Callable> value) : store_(std::move(value)) {}
  Value(Namespace* value) : store_(value) {}  // owned by the renderer
  static Value undefined(std::string what);
  // A text that counts as HTML: joined to another text, it stays unchanged and the other one is escaped.
  static Value markup(std::string text);

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<None>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_integer() const { return holds<int64_t>(); }
  bool is_float() const { return holds<double>(); }
  bool is_text() const { return holds<Text>(); }
  bool is_markup() const { return is_text() && markup_; }
  bool is_list() const { return holds<std::shared_ptr<const List>>(); }
  bool is_dict() const { return holds<std::shared_ptr<const Dict>>(); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }

  // Requires that the value has this type.
  bool boolean() const { return std::get<bool>(store_); }
  int64_t integer() const { return is_bool() ? int64_t{boolean()} : std::get<int64_t>(store_); }
  double number() const { return is_float() ? std::get<double>(store_) : static_cast<double>(integer()); }
  const std::string& text() const { return *std::get<Text>(store_); }
  const std::vector<Value>& items() const;
  const List& list() const { return *std::get<std::shared_ptr<const List>>(store_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(store_); }
  // Describes the undefined name, for messages.
  std::string undefined_name() const;
  Namespace* as_namespace() const {
    const auto* found = std::get_if<Namespace*>(&store_);
    return found == nullptr ? nullptr : *found;
  }
  const LoopState* as_loop() const { return pointer<LoopState>(); }
  const Callable* as_callable() const { return pointer<Callable>(); }

  // Python's name of the type, for messages.
  std::string_view type_name() const;
  // 0 for a value that contains no other values.
  int depth() const;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(store_);
  }
  template <typename T>
  const T* pointer() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&store_);
    return found == nullptr ? nullptr : found->get();
  }

  std::variant<None, Undefined, bool, int64_t, double, Text, std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const LoopState>, std::shared_ptr<const Callable>, Namespace*>
      store_;
  bool markup_ = false;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};

// Keeps the order of insertion. Inserting an existing key replaces its value but not its position.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> index;  // by hash_key
  int depth = 1;

  const Value* find_key(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Throws a Fault for a key that Python cannot hash.
  void insert(const Value& key, Value value);
};

// The only thing that templates can modify.
struct Namespace {
  Dict attributes;
};

// The variable `loop`.
struct LoopState {
  Value items;  // a list
  size_t index = 0;
};

// The depth of a value that contains one of this depth. Throws a Fault if it is too deep, because destructors recurse.
int depth_around(int depth, const Limits& limits);
// These functions throw a Fault if values would be nested too deep.
Value make_list(std::vector<Value> items, const Limits& limits, bool tuple = false);
Value make_dict(Dict dict, const Limits& limits);

// The number of bytes that hashing the key reads.
size_t key_bytes(const Value& key);
// Keys that are equal in a dict have equal hash keys. Throws a Fault for values that Python cannot hash.
std::string hash_key(const Value& value);

// A function of this library, or a macro of the template, as a value.
struct Callable {
  const Builtin* builtin = nullptr;  // or a macro:
  const MacroSignature* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  Value self = {};         // for a method
  int depth = 1;
};

}  // namespace gradmill::jinja
