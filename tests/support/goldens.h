// SPDX-License-Identifier: Apache-2.0
// The location of the golden files. tools/make_goldens.py made them and documents their contents.
#pragma once

#include <filesystem>
#include <string_view>

namespace gradmill::test {

// golden_path("gpt2") is .../tests/goldens/gpt2.safetensors.
std::filesystem::path golden_path(std::string_view name);

}  // namespace gradmill::test
