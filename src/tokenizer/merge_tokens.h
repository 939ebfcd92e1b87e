// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging: of all neighbours the pair with the lowest rank merges, the leftmost first, until none does.
#pragma once

#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/word_model.h"

namespace gradmill {

// Merges the tokens from `begin` on, in time n log n.
void merge_tokens(const MergeTable& merges, std::vector<WordToken>& tokens, size_t begin);

}  // namespace gradmill
