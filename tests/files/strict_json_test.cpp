// SPDX-License-Identifier: Apache-2.0
#include "files/strict_json.h"

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace gradmill::test {
namespace {

using nlohmann::json;

void expect_refused(std::string_view text, std::string_view why, const JsonRules& rules = {}) {
  SCOPED_TRACE(text);
  expect_error([&] { parse_strict_json(text, "the file", rules); }, ExitCode::data, {"the file: ", why, rules.fix});
}

TEST(StrictJson, ReadsWhatTheLibraryReads) {
  const char* text = R"( {"a": [1, -2, 1.5e3, true, null, "\u00e9\n"], "b": {"a": {}}} )";
  EXPECT_EQ(parse_strict_json(text, "the file"), json::parse(text));
  EXPECT_EQ(parse_strict_json("7", "the file"), 7);
}

TEST(StrictJson, RefusesWithTheByte) {
  expect_refused("", "not valid JSON at byte 1");
  expect_refused("{\"a\": }", "not valid JSON at byte 7");
  expect_refused("[1] x", "not valid JSON at byte 5");
  expect_refused("[1e999]", "not valid JSON at byte");
  expect_refused("[\"\xff\"]", "not valid JSON at byte");
  expect_refused(std::string_view("[1]\0[", 5), "not valid JSON at byte 3");
  expect_refused("]", "not valid JSON", {.fix = "ask for another"});
}

TEST(StrictJson, RefusesAKeyThatComesTwice) {
  expect_refused(R"({"x": {"a": 1, "b": 2, "a": 3}})", "the key 'a' appears twice");
  expect_refused("{\"a\\u0007\": 1, \"a\\u0007\": 1}", "the key 'a\\x07' appears twice");
  EXPECT_EQ(parse_strict_json(R"([{"a": 1}, {"a": {"a": 2}}])", "the file").size(), 2u);
}

TEST(StrictJson, Limits) {
  const JsonRules rules{.max_depth = 3, .max_values = 6};
  EXPECT_NO_THROW(parse_strict_json(R"([[{"a": 1, "b": []}]])", "the file", {.max_depth = 4}));
  expect_refused(R"([[{"a": []}]])", "nested deeper than 3 levels", rules);
  EXPECT_NO_THROW(parse_strict_json(R"({"a": [1, 2, 3]})", "the file", rules));
  expect_refused(R"({"a": [1, 2, 3, 4]})", "more than 6 values", rules);
}

TEST(StrictJson, RealsAreReadAsTheRulesSay) {
  const JsonRules rules{
      .read_real = [](std::string_view text, double nearest) { return text == "0.5" ? 2 * nearest : nearest; }};
  EXPECT_EQ(parse_strict_json("[0.5, 0.25, 5]", "the file", rules), json::parse("[1.0, 0.25, 5]"));
}

TEST(StrictJson, QuotesFitALine) {
  EXPECT_EQ(quote_for_message("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_EQ(quote_for_message(std::string(81, 'x')), "'" + std::string(80, 'x') + "…'");
}

}  // namespace
}  // namespace gradmill::test
