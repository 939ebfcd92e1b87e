// SPDX-License-Identifier: Apache-2.0
// The steps that turn tokens back into text, with the names used in tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/text_pattern.h"

namespace gradmill {

// One decoding step. After the last step, the tokens are concatenated.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // With `replace_invalid`, bytes that do not form a character become U+FFFD.
  virtual void apply(std::vector<std::string>& tokens, bool replace_invalid) const = 0;
};

using DecoderList = std::vector<std::unique_ptr<const DecodeStep>>;

std::unique_ptr<const DecodeStep> make_byte_level_decoder();
std::unique_ptr<const DecodeStep> make_word_piece_decoder(std::string prefix, bool cleanup);
std::unique_ptr<const DecodeStep> make_metaspace_decoder(std::string replacement, bool drop_first);
std::unique_ptr<const DecodeStep> make_replace_decoder(TextPattern pattern, std::string content);
std::unique_ptr<const DecodeStep> make_byte_fallback_decoder();
std::unique_ptr<const DecodeStep> make_fuse_decoder();
// Removes up to `start` copies of the character from the beginning and up to `stop` from the end.
std::unique_ptr<const DecodeStep> make_strip_decoder(std::string content, size_t start, size_t stop);
std::unique_ptr<const DecodeStep> make_bpe_decoder(std::string suffix);
std::unique_ptr<const DecodeStep> make_joiner(std::string between);  // joins all tokens into one
// Removes `space` from the first token with text and, if `all`, from the tokens before it that consist only of it.
std::unique_ptr<const DecodeStep> make_leading_space_remover(std::string space, bool all);
// Shows the token `token` as `surface`.
std::unique_ptr<const DecodeStep> make_token_surface(std::string token, std::string surface);

}  // namespace gradmill
