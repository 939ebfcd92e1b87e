// SPDX-License-Identifier: Apache-2.0
// Unicode's four normalisation forms.
#pragma once

#include "tokenizer/normalized_text.h"

namespace gradmill {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Takes O(n log n) time. Bytes that are not UTF-8 are kept.
void normalize_form(UnicodeForm form, Rewriter& out);

}  // namespace gradmill
