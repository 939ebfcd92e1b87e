// SPDX-License-Identifier: Apache-2.0
// Instruction data: what one example becomes, and how it is to be read.
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
  std::vector<uint8_t> learned;  // of each id: 0 where it is no target (the label -100)
};

enum class ExampleShape : uint8_t {
  automatic,          // by the fields of each record, in the order of this list from its end
  text,               // text
  alpaca,             // instruction, input (may be missing or empty), output
  prompt_completion,  // prompt, completion: texts, or lists of messages
  sharegpt,           // conversations: [{from, value}]; tools, system
  messages,           // messages: [{role, content, ...}]; tools, documents, chat_template_kwargs
  segments,           // segments: [{text, label}], tokenised one by one; label says whether it is learned
  tokenized,          // input_ids; labels, attention_mask, completion_mask, assistant_masks
};

// Throws a usage_error for a name that is none of those above.
ExampleShape parse_example_shape(std::string_view name);

struct InstructionOptions {
  ExampleShape shape = ExampleShape::automatic;
  bool completion_only = true;  // prompts are not learned
  bool assistant_only = true;   // of conversations only what the assistant says is learned; otherwise everything
  bool alpaca_as_chat = false;  // through the chat template; otherwise in Alpaca's own words
  int64_t max_length = 1024;    // tokens; longer examples lose their end; 0: any length
  std::tm now = {};             // the date that templates with one show; a fixed one makes runs repeatable
};

struct InstructionCounts {
  int64_t num_examples = 0;
  int64_t num_truncated = 0;
  int64_t num_masked = 0;         // left out: nothing in them was to be learned
  int64_t num_split_prompts = 0;  // the prompt's tokens are not the first ones of the whole
  std::string first_masked, first_split;

  void merge(const InstructionCounts& later);
  // One line with what the user should know; empty where all is well.
  std::string summary() const;
};

}  // namespace gradmill
