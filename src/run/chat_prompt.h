// SPDX-License-Identifier: Apache-2.0
// A conversation as a prompt for the model to continue.
#pragma once

#include <string>
#include <vector>

#include "run/run_tokenizer.h"

namespace gradmill {

struct ChatPrompt {
  std::vector<TokenId> ids;
  std::vector<TokenId> stops;  // any of them ends the answer
};

// `messages` is JSON: [{"role": "user", "content": "..."}]. Throws a data_error if the tokenizer has no chat template,
// or if the template refuses the messages.
ChatPrompt chat_prompt(const RunTokenizer& tokenizer, const std::string& messages);
// The messages of a single turn; an empty `system` is left out.
std::string one_turn(const std::string& system, const std::string& user);

}  // namespace gradmill
