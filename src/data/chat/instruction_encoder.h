// SPDX-License-Identifier: Apache-2.0
// InstructionEncoder: records of instruction data to ids, and which of them are learned. The rules are those of Hugging
// Face's TRL, so that runs compare.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template_file.h"
#include "data/chat/conversation.h"
#include "data/chat/instruction_example.h"
#include "data/records/bad_records.h"
#include "data/records/record.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

// - Texts and completions end with the end-of-text token, which is added where it is missing. The tokens that the
//   tokenizer puts around a text are added unless they are there.
// - Prompt and completion are tokenised as one text; the first tokens, as far as they are those of the prompt alone,
// are
//   not learned.
// - Conversations are what the chat template makes of them and nothing else; tokens that overlap the assistant's part
// are
//   learned.
// - Tokens of other origin are taken as they are, without those that the attention mask leaves out.
// Constant: threads may share one.
class InstructionEncoder {
 public:
  // Throws a usage_error for a negative length.
  InstructionEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatFormat format, const InstructionOptions& options);

  // Nothing for a record that is left out because nothing in it is learned, which `counts` shows. Throws BadExample, or
  // a data_error, for one that cannot be used.
  std::optional<InstructionExample> encode(const Record& record, InstructionCounts& counts) const;
  // What cannot be used is left out too: it goes to `bad` and by its policy throws.
  std::optional<InstructionExample> encode(const Record& record, InstructionCounts& counts, BadRecords& bad) const;

 private:
  InstructionExample read(const Record& record, bool& split_prompt) const;
  InstructionExample read_text(const Record& record) const;
  InstructionExample read_prompt_completion(const Record& record, bool& split_prompt) const;
  InstructionExample read_segments(const Record& record) const;
  InstructionExample read_tokenized(const Record& record) const;
  InstructionExample encode_conversation(Conversation conversation) const;
  InstructionExample encode_texts(const PromptCompletion& texts, bool& split_prompt) const;
  InstructionExample encode_parts(std::vector<TokenId> prompt, std::vector<TokenId> whole, bool& split_prompt) const;

  ChatInput chat_input(const Conversation& conversation) const;
  std::string with_eos(std::string text) const;
  // With the tokens before, and if `whole` those behind, a text.
  std::vector<TokenId> with_template(std::vector<TokenId> ids, bool whole) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatFormat format_;
  InstructionOptions options_;
  std::vector<TokenId> before_, behind_;  // what the tokenizer puts around a text
};

}  // namespace gradmill
