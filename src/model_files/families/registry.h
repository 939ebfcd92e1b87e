// SPDX-License-Identifier: Apache-2.0
// The list of all families.
#pragma once

#include "model_files/families/family.h"

namespace gradmill {

// By model_type, of multimodal models too. Null where no family has it.
const Family* find_family(std::string_view model_type);
// The same where the caller knows that there is one.
const Family& family_named(std::string_view model_type);
// By GGUF's general.architecture; of several families that share it, the first. Null where no family has it.
const Family* find_gguf_family(std::string_view architecture);

// "gpt2, llama", for messages: every model_type, and every architecture of GGUF files.
std::string family_names();
std::string gguf_family_names();

}  // namespace gradmill
