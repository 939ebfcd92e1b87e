// SPDX-License-Identifier: Apache-2.0
// Encodes many texts on several threads.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// Returns the encodings in the order of the texts; the result does not depend on the number of threads. The first error
// in a thread is rethrown after all threads have stopped.
std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, std::span<const std::string_view> texts, int num_threads,
                                   const EncodeOptions& options = {});

}  // namespace gradmill
