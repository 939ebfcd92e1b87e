// SPDX-License-Identifier: Apache-2.0
// A conversation as what a model goes on from.
#pragma once

#include <string>
#include <vector>

#include "run/run_tokenizer.h"

namespace gradmill {

struct ChatPrompt {
  std::vector<TokenId> ids;
  std::vector<TokenId> stops;  // any of them ends the answer
};

// `messages` is JSON: [{"role": "user", "content": "..."}]. Throws a data_error where the tokenizer comes without a
// chat template, and for messages that it refuses.
ChatPrompt chat_prompt(const RunTokenizer& tokenizer, const std::string& messages);
// Messages of one turn; an empty `system` is left out.
std::string one_turn(const std::string& system, const std::string& user);

}  // namespace gradmill
