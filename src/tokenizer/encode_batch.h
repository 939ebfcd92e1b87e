// SPDX-License-Identifier: Apache-2.0
// Many texts at once, on several threads.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// The encodings of the texts, in their order, whatever the number of threads. The first error that a thread meets is
// thrown once all have stopped.
std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts, int num_threads,
                                   const EncodeOptions& options = {});

}  // namespace gradmill
