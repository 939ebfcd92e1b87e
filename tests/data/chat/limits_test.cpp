// SPDX-License-Identifier: Apache-2.0
// Templates and conversations that need too much end with an error, in limited time and memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/chat/chat_goldens.h"
#include "data/chat/jinja/json.h"

namespace gradmill {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string error(const std::string& source, const jinja::Limits& limits = {}) {
  return test::error_of([&] { test::render(source, test::OrderedJson::object(), limits); });
}

constexpr const char* kTooMuch = "the template takes too long or makes too large values";

TEST(ChatLimits, LoopsEnd) {
  const std::string body = "{% for c in range(100000) %}x{% endfor %}";
  EXPECT_NE(error("{% for a in range(100000) %}{% for b in range(100000) %}" + body + "{% endfor %}{% endfor %}")
                .find(kTooMuch),
            std::string::npos);
  EXPECT_NE(error("{{ range(1000000000000) | list }}").find(kTooMuch), std::string::npos);
}

TEST(ChatLimits, ValuesStayBounded) {
  jinja::Limits limits;
  limits.max_work = 1 << 20;
  const std::string rounds = "{% for i in range(200) %}";
  const std::vector<std::string> sources = {
      "{% set n = namespace(x='ab') %}" + rounds + "{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x=[1]) %}" + rounds + "{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x='ab') %}" + rounds + "{% set n.x = n.x.replace('a', n.x) %}{% endfor %}",
      "{% set n = namespace(x=[1]) %}" + rounds + "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | "
      "tojson }}",
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, "
      "n.y] "
      "%}{% endfor %}{{ n.x == n.y }}",
      "{{ 'a' * 1000000000000 }}",
      "{{ [1] * 9223372036854775807 }}",
      "{{ 'ab' * 9223372036854775807 }}",
      "{% set a = 'a' * 10000000 %}{% for i in range(1000) %}{{ (a + 'b') in a }}{% endfor %}",
      "{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 + 'b' %}{{ a.find(b) }}{{ a.split(b) }}",
  };
  for (const std::string& source : sources) {
    const std::string message = error(source, limits);
    const bool refused = message.find(kTooMuch) != std::string::npos ||
                         message.find("too large") != std::string::npos ||
                         message.find("nested deeper than") != std::string::npos;
    EXPECT_TRUE(refused) << source << "\n" << message;
  }
}

TEST(ChatLimits, RecursionEnds) {
  const std::string deep = "nested deeper than";
  EXPECT_NE(error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find(deep), std::string::npos);
  EXPECT_NE(error("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}").find(deep),
            std::string::npos);
  EXPECT_NE(error("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}").find(deep), std::string::npos);
  EXPECT_NE(error("{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}").find(deep), std::string::npos);
  EXPECT_NE(error("{{ " + repeated("not ", 5000) + "1 }}").find(deep), std::string::npos);
  EXPECT_NE(error("{{ " + repeated("-", 5000) + "1 }}").find(deep), std::string::npos);
  EXPECT_NE(error("{{ 1" + repeated("+1", 5000) + " }}").find("parts in one another"), std::string::npos);
  EXPECT_NE(error("{{ a" + repeated(".a", 5000) + " }}").find("parts in one another"), std::string::npos);
  EXPECT_NE(error("{{ a" + repeated("|e", 5000) + " }}").find("parts in one another"), std::string::npos);
  EXPECT_NE(error("{{ 1" + repeated(" if 1 else 1", 5000) + " }}").find(deep), std::string::npos);
  EXPECT_NE(error(repeated("{% if 1 %}", 5000)).find(deep), std::string::npos);
  EXPECT_NE(error("{% set " + repeated("(", 5000)), "");
  EXPECT_NE(error("{% set n = namespace(x=1) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor %}").find(deep),
            std::string::npos);
  EXPECT_NE(error("{% set n = namespace(x={}) %}{% for i in range(5000) %}{% set n.x = {'a': n.x.get} %}{% endfor %}")
                .find(deep),
            std::string::npos);
  EXPECT_EQ(error("{{ " + repeated("(", 50) + "1" + repeated(")", 50) + " }}"), "");
}

TEST(ChatLimits, NamespacesMayHoldThemselves) {
  EXPECT_EQ(
      test::render("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n, {'a': n}] %}{{ n.n.n.l[1].a == n }}"),
      "True");
  EXPECT_NE(error("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), "");
}

TEST(ChatLimits, SourceAndOutputHaveASize) {
  EXPECT_NE(error("{# " + std::string(300000, ' ') + " #}").find("more than 262144 bytes"), std::string::npos);
  jinja::Limits limits;
  limits.max_output_bytes = 1000;
  EXPECT_EQ(error("{{ 'a' * 1000 }}", limits), "");
  EXPECT_NE(error("{{ 'a' * 1001 }}", limits).find("more than 1000 bytes of output"), std::string::npos);
}

TEST(ChatLimits, IntegersDoNotWrap) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 99999999999999999999 }}",
        "{{ 10 ** 19 }}", "{{ 3037000500 * 3037000500 }}", "{{ (-9223372036854775807 - 1) // -1 }}"}) {
    EXPECT_NE(error(source).find("64 bits"), std::string::npos) << source;
  }
  EXPECT_EQ(
      test::render("{{ (-9223372036854775807 - 1) % -1 }} {{ [1,2,3][::9223372036854775807] }} "
                   "{{ [1,2,3][-9223372036854775807:9223372036854775807] }} {{ range(0, 3, 9223372036854775807) }}"),
      "0 [1] [1, 2, 3] [0]");
}

TEST(ChatLimits, WhatIsNotANumberHasNoOrder) {
  EXPECT_NE(error("{{ [2.0, 'nan' | float, 1.0] | sort }}").find("not a number"), std::string::npos);
  EXPECT_NE(error("{{ 1e308 * 10 - 1e308 * 10 <= 1 }}").find("not a number"), std::string::npos);
}

TEST(ChatLimits, JsonIsChecked) {
  const auto refuses = [](const std::string& text) {
    return !test::error_of([&] { jinja::parse_json(text); }).empty();
  };
  EXPECT_TRUE(refuses(repeated("[", 65) + repeated("]", 65)));
  EXPECT_TRUE(refuses(repeated("[", 1000000)));
  EXPECT_TRUE(refuses("{\"a\":"));
  EXPECT_TRUE(refuses("[1]x"));
  EXPECT_TRUE(refuses(std::string("[1]\0", 4)));
  EXPECT_TRUE(refuses("[\"\xff\"]"));
  EXPECT_TRUE(refuses("99999999999999999999"));
  EXPECT_TRUE(refuses("18446744073709551615"));
  EXPECT_FALSE(refuses(repeated("[", 64) + repeated("]", 64)));
  jinja::Limits limits;
  jinja::Work work(limits);
  const std::string text = R"({"b": 1, "a": [1.0, -2, 1e300, null, true, "é\n"], "b": 2})";
  EXPECT_EQ(jinja::to_json(jinja::parse_json(text), {}, work),
            R"({"b": 2, "a": [1.0, -2, 1e+300, null, true, "é\n"]})");
}

}  // namespace
}  // namespace gradmill
