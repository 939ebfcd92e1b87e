// SPDX-License-Identifier: Apache-2.0
// InstructionEncoder: converts records of instruction data to ids, and marks those to learn. It follows the rules of
// Hugging Face's TRL, so that runs are comparable.
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

// - Texts and completions get an end-of-text token if they lack one, and the tokenizer's template tokens likewise.
// - Prompt and completion are tokenised as one text. First tokens equal to those of the prompt alone are not learned.
// - Conversations are rendered by the chat template. Tokens that overlap the assistant's parts are learned.
// - Records with token ids are used unchanged, without the tokens that their attention mask excludes.
// Immutable; threads may share one.
class InstructionEncoder {
 public:
  // Throws a usage_error for a negative length.
  InstructionEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatFormat format, const InstructionOptions& options);

  // Returns nothing for a record in which nothing is learned, and counts it in `counts`. Throws BadExample or a
  // data_error for a record that cannot be used.
  std::optional<InstructionExample> encode(const Record& record, InstructionCounts& counts) const;
  // The same, but reports a record that cannot be used to `bad`, which may throw, and returns nothing for it.
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
  // Adds the template's tokens before a text and, if `whole`, those after it.
  std::vector<TokenId> with_template(std::vector<TokenId> ids, bool whole) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatFormat format_;
  InstructionOptions options_;
  std::vector<TokenId> before_, behind_;  // template tokens around a text
};

}  // namespace gradmill
