// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_split.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace gradmill {
namespace {

int64_t train_size(int64_t num_tokens, double validation_fraction) {
  return static_cast<int64_t>(static_cast<double>(num_tokens) * (1 - validation_fraction));
}

bool large_enough(int64_t num_tokens, double validation_fraction, int64_t context) {
  const int64_t train = train_size(num_tokens, validation_fraction);
  return train > context && num_tokens - train > context;
}

// The smallest number of tokens that can be split, searched from just below the value in real numbers. Beyond 2^53,
// where doubles cannot count, any answer means "too many".
int64_t tokens_needed(double validation_fraction, int64_t context) {
  constexpr double kLargest = 0x1p53;
  const double length = static_cast<double>(context);
  const double bound = std::max(length / validation_fraction, (length + 1) / (1 - validation_fraction));
  auto needed = static_cast<int64_t>(std::min(bound, kLargest)) - 1;
  while (static_cast<double>(needed) < kLargest && !large_enough(needed, validation_fraction, context)) ++needed;
  return needed;
}

}  // namespace

TokenSplit split_tokens(std::vector<int32_t> tokens, double validation_fraction, int64_t context) {
  if (!(validation_fraction > 0 && validation_fraction < 1)) {
    throw usage_error(fmt::format("the validation fraction is {}", validation_fraction),
                      "give a number between 0 and 1, such as 0.1");
  }
  if (context < 1) throw usage_error(fmt::format("the context is {}", context), "give a length of at least 1");
  const auto size = static_cast<int64_t>(tokens.size());
  if (!large_enough(size, validation_fraction, context)) {
    throw data_error(fmt::format("the text has {} characters; a context of {} and a validation fraction of {} need {}",
                                 size, context, validation_fraction, tokens_needed(validation_fraction, context)),
                     "use a longer text or a shorter context");
  }
  const auto cut = tokens.begin() + train_size(size, validation_fraction);
  TokenSplit split;
  split.validation.assign(cut, tokens.end());
  tokens.erase(cut, tokens.end());
  split.train = std::move(tokens);
  return split;
}

}  // namespace gradmill
