// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: repeatedly merges the neighbouring pair with the lowest rank, the leftmost of equals, until no
// pair can merge.
#pragma once

#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/word_model.h"

namespace gradmill {

// Merges the tokens from `begin` on, in O(n log n) time.
void merge_tokens(const MergeTable& merges, std::vector<WordToken>& tokens, size_t begin);

}  // namespace gradmill
