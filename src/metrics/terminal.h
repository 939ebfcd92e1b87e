// SPDX-License-Identifier: Apache-2.0
// The terminal behind standard output, if there is one.
#pragma once

#include <string_view>

namespace gradmill {

// Standard output is a terminal that understands control sequences.
bool stdout_is_terminal();
// Columns; 80 when nobody says.
int terminal_width();
void write_stdout(std::string_view bytes);

}  // namespace gradmill
