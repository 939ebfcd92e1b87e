// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/inspect.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "data/tokens/corpus_tokenizer.h"
#include "data/tokens/length_histogram.h"
#include "data/tokens/token_block.h"
#include "data/tokens/token_folder.h"
#include "data/records/record_stream.h"

namespace gradmill {
namespace {

// Shortens the text to fit on one line.
std::string shortened(std::string_view text, size_t most) {
  std::string line;
  for (char character : text) {
    if (character == '\n') {
      line += "\\n";
    } else if (character == '\t') {
      line += "\\t";
    } else if (static_cast<unsigned char>(character) < 0x20) {
      line += '?';
    } else {
      line += character;
    }
  }
  if (line.size() <= most) return line;
  size_t size = most;
  while (size > 0 && (static_cast<unsigned char>(line[size]) & 0xc0u) == 0x80u) --size;
  return line.substr(0, size) + "...";
}

std::string shown_tokens(std::span<const int32_t> ids, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return tokenizer->decode(ids, {.replace_invalid = true});
  return fmt::format("{}", fmt::join(ids, " "));
}

std::string describe_epoch(int64_t num_tokens, int64_t num_rows, const InspectOptions& options) {
  const double room = static_cast<double>(num_rows) * static_cast<double>(options.pack.context);
  return fmt::format(
      "at context {} and {} rows a step: {} rows, {:.1f}% full, {:.1f} steps an epoch, {} tokens a step\n",
      options.pack.context, options.batch_size, num_rows, 100 * static_cast<double>(num_tokens) / room,
      static_cast<double>(num_rows) / static_cast<double>(options.batch_size),
      num_tokens * options.batch_size / std::max<int64_t>(num_rows, 1));
}

std::string inspect_shards(const InspectOptions& options) {
  const std::vector<std::filesystem::path> paths = list_token_shards(options.sources.front());
  const ShardSet shards(paths);
  std::optional<CorpusTokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    tokenizer = open_corpus_tokenizer(options.tokenizer);
    if (vocab_id(*tokenizer->tokenizer) != shards.vocab()) {
      throw data_error(
          fmt::format("the shards in '{}' are not of the tokenizer '{}'", options.sources.front(), options.tokenizer),
          "give the one that they were made with");
    }
  }
  std::string text =
      fmt::format("{} token shard{}, vocabulary of {}\n{} documents, {} tokens\n", paths.size(),
                  paths.size() == 1 ? "" : "s", shards.vocab().size, shards.num_documents(), shards.num_tokens());
  if (shards.has_learned_plane()) {
    text += fmt::format("{:.1f}% of the tokens are learned, the others are only read\n",
                        100 * static_cast<double>(shards.count_learned(0, shards.num_tokens())) /
                            static_cast<double>(std::max<int64_t>(shards.num_tokens(), 1)));
  }
  LengthHistogram lengths;
  for (int64_t document = 0, begin = 0; document < shards.num_documents(); ++document) {
    const int64_t end = shards.document_end(document);
    lengths.add(end - std::exchange(begin, end));
  }
  text += lengths.render("tokens a document", options.width);
  const PackPlan plan(shards, options.pack);
  text += describe_epoch(shards.num_tokens(), plan.num_rows(), options);
  const RowList rows = plan.block(0);
  for (int64_t row = 0; row < std::min(options.num_samples, rows.num_rows()); ++row) {
    text += fmt::format("\nrow {}\n", row);
    text += show_row(make_packed_batch(shards, rows.rows(row, row + 1), 1, plan.context(), plan.seqs_per_row()),
                     tokenizer ? tokenizer->tokenizer.get() : nullptr, options.width);
  }
  return text;
}

// The part of a data set that is inspected: its records, as text or as tokens.
class RecordSurvey {
 public:
  RecordSurvey(const InspectOptions& options, const RecordEncoding* encoding)
      : options_(options), encoding_(encoding), stream_(list_sources(options.sources), read_options(options)) {
    Record record;
    while (!is_full() && stream_.next(record)) add(record);
    is_all_ = !is_full() || !stream_.next(record);
  }

  std::string describe() const {
    std::string text =
        fmt::format("{}{} documents, {} bytes of text\n", is_all_ ? "" : "the first ", bytes_.count(), bytes_.sum());
    if (const std::string skipped = stream_.bad_records().summary(); !skipped.empty()) text += skipped + "\n";
    if (num_unusable_ > 0) text += fmt::format("{} records cannot be used\n", num_unusable_);
    text += bytes_.render("bytes a document", options_.width);
    if (encoding_ == nullptr) return text + samples_;
    text += fmt::format("{} tokens, {:.2f} bytes each\n", tokens_.sum(),
                        static_cast<double>(bytes_.sum()) / static_cast<double>(std::max<int64_t>(tokens_.sum(), 1)));
    return text + tokens_.render("tokens a document", options_.width);
  }
  int64_t num_tokens() const { return tokens_.sum(); }
  const std::vector<int64_t>& ends() const { return ends_; }
  const TokenBlock& head() const { return head_; }

 private:
  static ReadOptions read_options(const InspectOptions& options) {
    ReadOptions read = options.read;
    read.fields = options.encoding ? options.encoding->fields : std::vector<FieldRequest>{{options.column}};
    return read;
  }
  bool is_full() const { return options_.max_documents > 0 && bytes_.count() >= options_.max_documents; }

  void add(const Record& record) {
    if (options_.encoding) {
      for (const RecordField& field : record.fields()) open_bytes_ += std::ssize(field.value);
      bytes_.add(std::exchange(open_bytes_, 0));
      return add_tokens(record);
    }
    const std::string& text = record.find(options_.column)->value;
    if (bytes_.count() < options_.num_samples && open_bytes_ == 0 && encoding_ == nullptr) {
      samples_ += fmt::format("\n'{}' line {}\n  {}\n", record.file, record.line,
                              shortened(text, static_cast<size_t>(options_.width) * 4));
    }
    open_bytes_ += std::ssize(text);
    if (!record.continues) bytes_.add(std::exchange(open_bytes_, 0));
    if (encoding_ != nullptr) add_tokens(record);
  }

  // Returns false for a record that cannot be used and is skipped.
  bool encode(const Record& record) {
    try {
      encoding_->encode(record, document_);
      return true;
    } catch (const Error& error) {
      if (options_.read.bad_records == BadRecordPolicy::skip) return ++num_unusable_, false;
      throw data_error(fmt::format("'{}' line {}: {}", record.file, record.line, error.what()), "");
    }
  }

  void add_tokens(const Record& record) {
    if (!encode(record)) return;
    open_tokens_ += std::ssize(document_.ids);
    // Keeps only as many tokens as the samples can show.
    if (std::ssize(head_.tokens) < (options_.num_samples + 1) * options_.pack.context * 4) {
      head_.tokens.insert(head_.tokens.end(), document_.ids.begin(), document_.ids.end());
      if (document_.learned.empty()) document_.learned.assign(document_.ids.size(), 1);
      head_.learned.insert(head_.learned.end(), document_.learned.begin(), document_.learned.end());
      if (!record.continues) head_.ends.push_back(std::ssize(head_.tokens));
    }
    if (record.continues) return;
    tokens_.add(open_tokens_);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + std::exchange(open_tokens_, 0));
  }

  const InspectOptions& options_;
  const RecordEncoding* encoding_;
  RecordStream stream_;
  bool is_all_ = true;
  LengthHistogram bytes_, tokens_;
  std::vector<int64_t> ends_;
  int64_t open_bytes_ = 0, open_tokens_ = 0;  // of the document in progress
  int64_t num_unusable_ = 0;
  TokenDocument document_;
  TokenBlock head_;
  std::string samples_;
};

std::string show_rows(const TokenBlock& block, const Tokenizer& tokenizer, const InspectOptions& options) {
  std::string text;
  const PackOptions pack = checked_pack_options(options.pack);
  const RowList rows = pack_documents(block.ends, pack);
  for (int64_t row = 0; row < std::min(options.num_samples, rows.num_rows()); ++row) {
    PackedBatchBuilder builder(1, pack.context, pack.row_documents);
    for (const Piece& piece : rows.rows(row, row + 1)) {
      const PackedBatchBuilder::Sequence sequence = builder.add(piece.length);
      const auto from = block.tokens.begin() + piece.begin;
      std::copy_n(from, piece.length, sequence.tokens.begin());
      const int32_t num_targets = piece.length - (piece.has_next ? 0 : 1);
      for (int32_t i = 0; i < num_targets; ++i) {
        if (block.learned[static_cast<size_t>(piece.begin + i + 1)] != 0)
          sequence.targets[static_cast<size_t>(i)] = from[i + 1];
      }
    }
    text += fmt::format("\nrow {}\n{}", row, show_row(builder.finish(), &tokenizer, options.width));
  }
  return text;
}

}  // namespace

std::string show_row(const MicroBatch& row, const Tokenizer* tokenizer, int width) {
  std::string text =
      fmt::format("  {} sequences, {} tokens, {} targets\n", row.num_seqs, row.cu_seqlens.back(), row.num_targets);
  constexpr int64_t kMostShown = 8;
  const auto num_shown = static_cast<size_t>(std::min(row.num_seqs, kMostShown));
  for (size_t seq = 0; seq < num_shown; ++seq) {
    const auto begin = static_cast<size_t>(row.cu_seqlens[seq]), end = static_cast<size_t>(row.cu_seqlens[seq + 1]);
    // A token is learned where it is the target of the one before it; the first of a sequence is nobody's target.
    const auto is_target = [&](size_t at) { return at > begin && row.targets[at - 1] != kIgnoredTarget; };
    std::string line;
    for (size_t at = begin; at < end;) {
      size_t last = at + 1;
      while (last < end && is_target(last) == is_target(at)) ++last;
      const std::string part = shown_tokens(std::span(row.tokens).subspan(at, last - at), tokenizer);
      line += is_target(at) ? part : "[" + part + "]";
      if (tokenizer == nullptr && last < end) line += ' ';
      at = last;
    }
    text += fmt::format("  {:>5} | {}\n", end - begin, shortened(line, static_cast<size_t>(width) * 3));
  }
  if (row.num_seqs > kMostShown) text += fmt::format("        and {} more\n", row.num_seqs - kMostShown);
  return text;
}

std::string inspect_data(const InspectOptions& options) {
  if (options.batch_size < 1) {
    throw usage_error(fmt::format("the rows of a step are {}", options.batch_size), "give at least 1");
  }
  if (options.sources.size() == 1 && is_token_data(options.sources.front())) return inspect_shards(options);
  if (options.tokenizer.empty()) return RecordSurvey(options, nullptr).describe();
  const CorpusTokenizer tokenizer = open_corpus_tokenizer(options.tokenizer);
  const RecordEncoding encoding = options.encoding ? *options.encoding : tokenizer.text(options.column, options.eos);
  const RecordSurvey survey(options, &encoding);
  const RowList rows = pack_documents(survey.ends(), checked_pack_options(options.pack));
  return survey.describe() + describe_epoch(survey.num_tokens(), rows.num_rows(), options) +
         show_rows(survey.head(), *tokenizer.tokenizer, options);
}

}  // namespace gradmill
