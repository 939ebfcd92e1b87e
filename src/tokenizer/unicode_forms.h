// SPDX-License-Identifier: Apache-2.0
// Unicode's four normalisation forms.
#pragma once

#include "tokenizer/normalized_text.h"

namespace gradmill {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// In time n log n. Bytes that are not UTF-8 stay.
void normalize_form(UnicodeForm form, Rewriter& out);

}  // namespace gradmill
