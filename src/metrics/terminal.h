// SPDX-License-Identifier: Apache-2.0
// Properties of the terminal on standard output.
#pragma once

#include <string_view>

namespace gradmill {

// Whether standard output is a terminal that understands control sequences.
bool stdout_is_terminal();
// The number of columns; 80 if unknown.
int terminal_width();
void write_stdout(std::string_view bytes);

}  // namespace gradmill
