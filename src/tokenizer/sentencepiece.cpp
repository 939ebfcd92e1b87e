// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/char_bpe.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/sentencepiece_proto.h"
#include "tokenizer/unigram.h"

namespace gradmill {
namespace {

using PieceType = SentencePieceFile::PieceType;
using ModelType = SentencePieceFile::ModelType;

constexpr size_t kMaxPieceBytes = 4096;
constexpr std::string_view kSpace = "\u2581";

class Builder {
 public:
  Builder(SentencePieceFile file, std::string_view where) : file_(std::move(file)), where_(where) {}

  std::unique_ptr<PipelineTokenizer> build() {
    check();
    PipelineParts parts;
    parts.added_tokens = control_tokens();
    add_bert_parts(parts);
    parts.normalizers.push_back(make_sentencepiece_normalizer(normalizer_settings()));
    parts.model = file_.model_type == ModelType::bpe ? make_bpe() : make_unigram();
    add_decoders(parts.decoders);
    return std::make_unique<PipelineTokenizer>(std::move(parts));
  }

 private:
  Error bad(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what), "the file is damaged; fetch or make it again");
  }
  Error unknown(std::string_view what) const {
    return data_error(fmt::format("{}: {}", where_, what), "this kind of SentencePiece model cannot be read");
  }

  void check() {
    if (file_.model_type != ModelType::unigram && file_.model_type != ModelType::bpe) {
      throw unknown("the model is neither of type unigram nor BPE");
    }
    if (file_.whitespace_as_suffix) throw unknown("the model treats white space as a suffix");
    for (size_t i = 0; i < file_.pieces.size(); ++i) {
      const auto& piece = file_.pieces[i];
      const auto id = static_cast<TokenId>(i);
      if (piece.text.empty() || piece.text.size() > kMaxPieceBytes || piece.text.find('\0') != std::string::npos) {
        throw bad(fmt::format("piece {} is empty, too long or has a NUL", id));
      }
      if (!std::isfinite(piece.score)) throw bad(fmt::format("the score of piece {} is not a number", id));
      if (piece.type == PieceType::unknown && unknown_ >= 0) throw bad("there are two unknown pieces");
      if (piece.type == PieceType::unknown) unknown_ = id;
      if (piece.type == PieceType::unused && file_.model_type == ModelType::bpe) {
        throw unknown("the BPE has unused pieces");
      }
    }
    if (unknown_ < 0) throw bad("there is no unknown piece");
  }

  std::vector<TokenId> ids_of(PieceType type) const {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < file_.pieces.size(); ++i) {
      if (file_.pieces[i].type == type) ids.push_back(static_cast<TokenId>(i));
    }
    return ids;
  }

  Vocabulary make_vocabulary() const {
    Vocabulary vocabulary(static_cast<TokenId>(file_.pieces.size() - 1), Spelling::plain);
    for (size_t i = 0; i < file_.pieces.size(); ++i) {
      if (!vocabulary.add(static_cast<TokenId>(i), file_.pieces[i].text)) {
        throw bad(fmt::format("the piece {} appears twice", quote_for_message(file_.pieces[i].text)));
      }
    }
    return vocabulary;
  }

  std::unique_ptr<const WordModel> make_unigram() const {
    UnigramOptions options{.unknown = unknown_, .byte_fallback = file_.byte_fallback, .single_precision = true};
    for (const PieceType type : {PieceType::unknown, PieceType::control, PieceType::unused, PieceType::byte}) {
      const auto ids = ids_of(type);
      options.hidden.insert(options.hidden.end(), ids.begin(), ids.end());
    }
    options.user_defined = ids_of(PieceType::user_defined);
    std::vector<double> scores;
    for (const auto& piece : file_.pieces) scores.push_back(static_cast<double>(piece.score));
    return std::make_unique<Unigram>(make_vocabulary(), std::move(scores), options);
  }

  std::unique_ptr<const WordModel> make_bpe() const {
    CharBpeOptions options{.byte_fallback = file_.byte_fallback, .unknown = unknown_, .fuse_unknown = true};
    options.whole = ids_of(PieceType::user_defined);
    Vocabulary vocabulary = make_vocabulary();
    const std::vector<Merge> merges = find_merges(vocabulary);
    return std::make_unique<CharBpe>(std::move(vocabulary), merges, std::move(options));
  }

  // SentencePiece merges any two pieces that together make a third, the one with the highest score first. This lists
  // them as merges: every way to split a piece in two, ordered by score; equal scores share a rank.
  std::vector<Merge> find_merges(const Vocabulary& vocabulary) const {
    std::vector<TokenId> order = ids_of(PieceType::normal);
    std::ranges::stable_sort(order, std::greater<>(), [&](TokenId id) { return piece(id).score; });
    std::vector<Merge> merges;
    uint32_t rank = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && piece(order[i]).score != piece(order[i - 1]).score) ++rank;
      const std::string_view text = piece(order[i]).text;
      for (size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = vocabulary.id_of_bytes(text.substr(0, cut));
        if (!left || piece(*left).type != PieceType::normal) continue;
        const auto right = vocabulary.id_of_bytes(text.substr(cut));
        if (right && piece(*right).type == PieceType::normal) merges.push_back({*left, *right, order[i], rank});
      }
    }
    return merges;
  }

  const SentencePieceFile::Piece& piece(TokenId id) const { return file_.pieces[static_cast<size_t>(id)]; }

  SentencePieceNormalizerSettings normalizer_settings() const {
    SentencePieceNormalizerSettings settings;
    settings.charsmap = file_.charsmap;
    settings.where = where_;
    settings.add_dummy_prefix = file_.add_dummy_prefix;
    settings.remove_extra_whitespaces = file_.remove_extra_whitespaces;
    settings.space = file_.escape_whitespaces ? kSpace : " ";
    for (const TokenId id : ids_of(PieceType::user_defined)) settings.verbatim.push_back(piece(id).text);
    return settings;
  }

  std::vector<AddedToken> control_tokens() const {
    std::vector<AddedToken> tokens;
    for (const TokenId id : ids_of(PieceType::control)) {
      tokens.push_back({.id = id, .content = piece(id).text, .special = true});
    }
    return tokens;
  }

  void add_bert_parts(PipelineParts& parts) const {
    const auto find = [&](std::string_view content) {
      const auto token = std::ranges::find(parts.added_tokens, content, &AddedToken::content);
      return token == parts.added_tokens.end() ? TokenId{-1} : token->id;
    };
    const TokenId cls = find("[CLS]"), sep = find("[SEP]");
    if (cls < 0 || sep < 0) return;
    parts.sequence_template = SequenceTemplate::bert(cls, sep);
    const bool has_mask = std::ranges::any_of(file_.pieces, [](const auto& p) { return p.text == "[MASK]"; });
    const auto next_id = static_cast<TokenId>(file_.pieces.size());
    if (!has_mask) parts.added_tokens.push_back({.id = next_id, .content = "[MASK]", .special = true, .lstrip = true});
  }

  void add_decoders(DecoderList& list) const {
    const std::string space(file_.escape_whitespaces ? kSpace : " ");
    // In trimmed text, no space can be at the beginning. Otherwise only the space that was added is removed.
    if (file_.add_dummy_prefix || file_.remove_extra_whitespaces) {
      list.push_back(make_leading_space_remover(space, file_.remove_extra_whitespaces));
    }
    list.push_back(make_token_surface(piece(unknown_).text, file_.unknown_surface));
    if (file_.byte_fallback) list.push_back(make_byte_fallback_decoder());
    list.push_back(make_replace_decoder(TextPattern::literal(space), " "));
  }

  SentencePieceFile file_;
  std::string_view where_;
  TokenId unknown_ = -1;
};

}  // namespace

std::unique_ptr<PipelineTokenizer> make_sentencepiece(std::string_view bytes, std::string_view where) {
  return Builder(parse_sentencepiece_file(bytes, where), where).build();
}

}  // namespace gradmill
