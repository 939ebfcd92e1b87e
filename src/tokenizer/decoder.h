// SPDX-License-Identifier: Apache-2.0
// The steps from tokens back to text, as tokenizer.json names them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/text_pattern.h"

namespace gradmill {

// One step of decoding; the tokens that are left at the end are put together without anything between them.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // `replace_invalid`: bytes that make no character become U+FFFD.
  virtual void apply(std::vector<std::string>& tokens, bool replace_invalid) const = 0;
};

using DecoderList = std::vector<std::unique_ptr<const DecodeStep>>;

std::unique_ptr<const DecodeStep> make_byte_level_decoder();
std::unique_ptr<const DecodeStep> make_word_piece_decoder(std::string prefix, bool cleanup);
std::unique_ptr<const DecodeStep> make_metaspace_decoder(std::string replacement, bool drop_first);
std::unique_ptr<const DecodeStep> make_replace_decoder(TextPattern pattern, std::string content);
std::unique_ptr<const DecodeStep> make_byte_fallback_decoder();
std::unique_ptr<const DecodeStep> make_fuse_decoder();
// Takes up to `start` and `stop` copies of the character off the ends.
std::unique_ptr<const DecodeStep> make_strip_decoder(std::string content, size_t start, size_t stop);
std::unique_ptr<const DecodeStep> make_bpe_decoder(std::string suffix);
std::unique_ptr<const DecodeStep> make_joiner(std::string between);  // all become one
// Takes `space` off the first token that has text, and, if `all`, off tokens before it that are nothing else.
std::unique_ptr<const DecodeStep> make_leading_space_remover(std::string space, bool all);
// A token that is `token` is shown as `surface`.
std::unique_ptr<const DecodeStep> make_token_surface(std::string token, std::string surface);

}  // namespace gradmill
