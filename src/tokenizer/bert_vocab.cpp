// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bert_vocab.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/word_piece.h"

namespace gradmill {
namespace {

constexpr size_t kMaxTokenBytes = 4096;

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::unique_ptr<PipelineTokenizer> make_bert_tokenizer(std::string_view vocab, std::string_view where,
                                                       const BertVocabOptions& options) {
  const auto bad = [where](std::string_view what) {
    return data_error(fmt::format("{}: {}", where, what), "the file is damaged or not a WordPiece vocabulary");
  };
  const auto lines = split_lines(vocab);
  if (lines.empty()) throw bad("the vocabulary is empty");
  Vocabulary vocabulary(static_cast<TokenId>(lines.size() - 1), Spelling::plain);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() > kMaxTokenBytes) throw bad(fmt::format("line {} has {} bytes", i + 1, lines[i].size()));
    if (!vocabulary.add(static_cast<TokenId>(i), lines[i])) {
      throw bad(fmt::format("line {}: the token {} appears twice", i + 1, quote_for_message(lines[i])));
    }
  }
  const auto unknown = vocabulary.id("[UNK]"), cls = vocabulary.id("[CLS]"), sep = vocabulary.id("[SEP]");
  if (!unknown) throw bad("there is no [UNK]");
  PipelineParts parts;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (const auto id = vocabulary.id(token)) {
      parts.added_tokens.push_back({.id = *id, .content = token, .special = true});
    }
  }
  if (cls && sep) parts.sequence_template = SequenceTemplate::bert(*cls, *sep);
  parts.normalizers.push_back(make_utf8_repair());
  add_bert_normalizer({.strip_accents = options.lowercase, .lowercase = options.lowercase}, parts.normalizers);
  parts.pre_tokenizers.push_back(make_bert_pre_tokenizer());
  parts.decoders.push_back(make_word_piece_decoder("##", true));
  parts.model = std::make_unique<WordPiece>(std::move(vocabulary), WordPieceOptions{.unknown = *unknown});
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace gradmill
