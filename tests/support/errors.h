// SPDX-License-Identifier: Apache-2.0
// What a user sees when a call fails.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/error.h"

namespace gradmill::test {

// Expects `call` to throw an Error with this exit code, whose one line contains every part.
template <class Call>
void expect_error(Call&& call, ExitCode code, std::initializer_list<std::string_view> parts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string_view message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_EQ(message.find('\n'), std::string_view::npos) << message;
    for (std::string_view part : parts)
      EXPECT_NE(message.find(part), std::string_view::npos) << part << " not in: " << message;
  }
}

}  // namespace gradmill::test
