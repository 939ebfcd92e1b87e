// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pre_tokenizer.h"

#include <string>
#include <utility>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

class Scanner final : public PreTokenizer {
 public:
  explicit Scanner(SplitKind kind) : kind_(kind) {}
  TokenSpan next(std::string_view text, size_t position) const override {
    return {position, position < text.size() ? next_split(kind_, text, position) : position};
  }

 private:
  SplitKind kind_;
};

// A text is a sequence of matches and the gaps between them. Split behaviours differ in how they join these segments.
class Split final : public PreTokenizer {
 public:
  Split(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  TokenSpan next(std::string_view text, size_t position) const override {
    Segment segment = segment_at(text, position);
    if (behavior_ == SplitBehavior::removed) {
      while (segment.match && position < text.size()) {
        position = segment.end;
        segment = segment_at(text, position);
      }
      return {position, segment.end};
    }
    return {position, segment.end == text.size() ? segment.end : join(text, segment)};
  }

 private:
  struct Segment {
    size_t end = 0;
    bool match = false;
  };

  Segment segment_at(std::string_view text, size_t position) const {
    if (position >= text.size()) return {text.size(), false};
    const TokenSpan found = pattern_.find(text, position);
    const bool match = found.begin == position;
    return {match ? found.end : found.begin, match != invert_};
  }

  // Where the part that begins with this segment ends.
  size_t join(std::string_view text, Segment segment) const {
    if (behavior_ == SplitBehavior::isolated) return segment.end;
    Segment following = segment_at(text, segment.end);
    if (behavior_ == SplitBehavior::contiguous) {
      while (following.match == segment.match && segment.end < text.size()) {
        segment = following;
        following = segment_at(text, segment.end);
      }
      return segment.end;
    }
    // A match can join a gap, but not another match.
    const bool joins = behavior_ == SplitBehavior::merged_with_previous ? !segment.match && following.match
                                                                        : segment.match && !following.match;
    return joins ? following.end : segment.end;
  }

  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)),
        scheme_(scheme),
        split_(split),
        splitter_(TextPattern::literal(replacement_), SplitBehavior::merged_with_next, false) {}

  bool rewrites() const override { return true; }
  void rewrite(Rewriter& out, bool first) const override {
    const std::string_view text = out.original();
    const bool prepends = scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && first);
    if (prepends && !text.empty() && !text.starts_with(' ') && !text.starts_with(replacement_)) {
      out.replace(0, 0, replacement_);
    }
    if (replacement_ == " ") return;
    for (size_t i = text.find(' '); i != text.npos; i = text.find(' ', i + 1)) out.replace(i, i + 1, replacement_);
  }
  TokenSpan next(std::string_view text, size_t position) const override {
    return split_ ? splitter_.next(text, position) : TokenSpan{position, text.size()};
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
  Split splitter_;
};

class BertPreTokenizer final : public PreTokenizer {
 public:
  TokenSpan next(std::string_view text, size_t position) const override {
    size_t begin = position;
    while (begin < text.size()) {
      const Utf8Char c = read_utf8(text, begin);
      const Kind kind = kind_of(c.value);
      if (kind == Kind::punctuation) return {begin, begin + c.num_bytes};
      if (kind == Kind::word) break;
      begin += c.num_bytes;
    }
    size_t end = begin;
    while (end < text.size()) {
      const Utf8Char c = read_utf8(text, end);
      if (kind_of(c.value) != Kind::word) break;
      end += c.num_bytes;
    }
    return {begin, end};
  }

 private:
  enum class Kind { word, space, punctuation };
  static Kind kind_of(char32_t c) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return Kind::word;
    if (char_class(c) == CharClass::space) return Kind::space;
    return is_punctuation(c) ? Kind::punctuation : Kind::word;
  }
};

class PrefixSpace final : public PreTokenizer {
 public:
  bool rewrites() const override { return true; }
  void rewrite(Rewriter& out, bool) const override {
    if (!out.original().empty() && !out.original().starts_with(' ')) out.replace(0, 0, " ");
  }
};

class ByteSpelling final : public PreTokenizer {
 public:
  bool rewrites() const override { return true; }
  void rewrite(Rewriter& out, bool) const override { speller_->rewrite(out); }

 private:
  std::unique_ptr<const Normalizer> speller_ = make_byte_speller();
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_scanner(SplitKind kind) { return std::make_unique<Scanner>(kind); }

std::unique_ptr<const PreTokenizer> make_split(TextPattern pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

std::unique_ptr<const PreTokenizer> make_bert_pre_tokenizer() { return std::make_unique<BertPreTokenizer>(); }
std::unique_ptr<const PreTokenizer> make_prefix_space() { return std::make_unique<PrefixSpace>(); }
std::unique_ptr<const PreTokenizer> make_byte_spelling() { return std::make_unique<ByteSpelling>(); }

}  // namespace gradmill
