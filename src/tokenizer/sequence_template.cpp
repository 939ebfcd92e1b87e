// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sequence_template.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace gradmill {
namespace {

using Piece = SequenceTemplate::Piece;
using Ids = std::span<const TokenId>;

Ids cut(Ids ids, size_t length, bool left) { return left ? ids.last(length) : ids.first(length); }

Error unreachable(const Truncation& truncation, std::string_view why) {
  return usage_error(fmt::format("a sequence cannot be cut to {} tokens: {}", truncation.max_length, why),
                     "raise max_length or choose another truncation strategy");
}

// How many tokens of text fit in addition to the template's tokens.
size_t room(const Truncation& truncation, int64_t num_added) {
  if (truncation.max_length < num_added) {
    throw unreachable(truncation, fmt::format("the tokens around the text alone are {}", num_added));
  }
  return static_cast<size_t>(truncation.max_length - num_added);
}

// Cuts the longer text to the length of the shorter one, then both equally. An odd token goes to the longer text or, if
// they are equal, to the second, as in Hugging Face's library.
std::pair<size_t, size_t> share_room(size_t first, size_t second, size_t room) {
  const bool swapped = first > second;
  size_t shorter = std::min(first, second);
  size_t longer = std::max(shorter, room > shorter ? room - shorter : 0);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = room - shorter;
  }
  return swapped ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

Sequence fill(std::span<const Piece> pieces, Ids first, Ids second) {
  Sequence result;
  const size_t size = first.size() + second.size() + pieces.size();
  result.ids.reserve(size);
  result.type_ids.reserve(size);
  result.special.reserve(size);
  for (const Piece& piece : pieces) {
    const bool added = piece.kind == Piece::Kind::token;
    const Ids ids = added ? Ids(&piece.id, 1) : piece.kind == Piece::Kind::first ? first : second;
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.type_ids.insert(result.type_ids.end(), ids.size(), piece.type_id);
    result.special.insert(result.special.end(), ids.size(), added ? 1 : 0);
  }
  return result;
}

}  // namespace

SequenceTemplate::SequenceTemplate()
    : SequenceTemplate({{Piece::Kind::first}}, {{Piece::Kind::first}, {Piece::Kind::second, 1}}) {}

SequenceTemplate::SequenceTemplate(std::vector<Piece> single, std::vector<Piece> pair)
    : single_(std::move(single)), pair_(std::move(pair)) {}

SequenceTemplate SequenceTemplate::bert(TokenId cls, TokenId sep) {
  const Piece begin{Piece::Kind::token, 0, cls}, end{Piece::Kind::token, 0, sep}, first{Piece::Kind::first};
  return {{begin, first, end}, {begin, first, end, {Piece::Kind::second, 1}, {Piece::Kind::token, 1, sep}}};
}

int64_t SequenceTemplate::num_added(bool pair) const {
  const auto is_added = [](const Piece& piece) { return piece.kind == Piece::Kind::token; };
  return std::ranges::count_if(pair ? pair_ : single_, is_added);
}

Sequence SequenceTemplate::build(Ids first, const Truncation& truncation) const {
  if (truncation.max_length > 0) {
    const size_t fits = room(truncation, num_added(false));
    if (first.size() > fits && truncation.strategy == Truncation::Strategy::only_second) {
      throw unreachable(truncation, "only the second text may be cut and there is none");
    }
    first = cut(first, std::min(first.size(), fits), truncation.left);
  }
  return fill(single_, first, {});
}

Sequence SequenceTemplate::build(Ids first, Ids second, const Truncation& truncation) const {
  if (truncation.max_length > 0) {
    const size_t fits = room(truncation, num_added(true));
    size_t num_first = first.size(), num_second = second.size();
    if (num_first + num_second > fits) {
      switch (truncation.strategy) {
        case Truncation::Strategy::longest_first:
          std::tie(num_first, num_second) = share_room(num_first, num_second, fits);
          break;
        case Truncation::Strategy::only_first:
          if (num_second > fits)
            throw unreachable(truncation, "only the first text may be cut, and the second is longer");
          num_first = fits - num_second;
          break;
        case Truncation::Strategy::only_second:
          if (num_first > fits)
            throw unreachable(truncation, "only the second text may be cut, and the first is longer");
          num_second = fits - num_first;
          break;
      }
    }
    first = cut(first, num_first, truncation.left);
    second = cut(second, num_second, truncation.left);
  }
  return fill(pair_, first, second);
}

}  // namespace gradmill
