// SPDX-License-Identifier: Apache-2.0
// Instruction data: one encoded example, and the options for reading.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

struct InstructionExample {
  std::vector<TokenId> ids;
  std::vector<uint8_t> learned;  // per id: 0 if it is not a target (label -100)
};

enum class ExampleShape : uint8_t {
  automatic,          // detected from the fields of each record, by trying this list from its end
  text,               // text
  alpaca,             // instruction, input (may be missing or empty), output
  prompt_completion,  // prompt, completion: texts, or lists of messages
  sharegpt,           // conversations: [{from, value}]; tools, system
  messages,           // messages: [{role, content, ...}]; tools, documents, chat_template_kwargs
  segments,           // segments: [{text, label}], tokenised one by one; label says whether it is learned
  tokenized,          // input_ids; labels, attention_mask, completion_mask, assistant_masks
};

struct InstructionOptions {
  ExampleShape shape = ExampleShape::automatic;
  bool completion_only = true;  // prompts are not learned
  bool assistant_only = true;   // in conversations only the assistant's parts are learned; false: everything
  bool alpaca_as_chat = false;  // use the chat template instead of Alpaca's own wording
  int64_t max_length = 1024;    // in tokens; longer examples are cut at the end; 0: no limit
  std::tm now = {};             // the date shown by templates that use one; a fixed date makes runs repeatable
};

struct InstructionCounts {
  int64_t num_examples = 0;
  int64_t num_truncated = 0;
  int64_t num_masked = 0;         // skipped because nothing in them would be learned
  int64_t num_split_prompts = 0;  // the prompt's tokens are not the first tokens of the whole
  std::string first_masked, first_split;

  void merge(const InstructionCounts& later);
  // One line of warnings for the user; empty if there are none.
  std::string summary() const;
};

}  // namespace gradmill
