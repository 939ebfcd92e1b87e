// SPDX-License-Identifier: Apache-2.0
// Errors shown to the user: what went wrong, where, and what to do about it. Programmer mistakes are asserts instead.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace gradmill {

// The exit code of the process for each kind of error.
enum class ExitCode : int { ok = 0, failure = 1, usage = 2, out_of_memory = 3, data = 4, interrupted = 130 };

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string_view what, std::string_view fix)
      : std::runtime_error(fix.empty() ? std::string(what) : fmt::format("{}; {}", what, fix)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// An invalid setting or argument.
inline Error usage_error(std::string_view what, std::string_view fix) { return {ExitCode::usage, what, fix}; }
// A file or data set that cannot be used.
inline Error data_error(std::string_view what, std::string_view fix) { return {ExitCode::data, what, fix}; }

}  // namespace gradmill
