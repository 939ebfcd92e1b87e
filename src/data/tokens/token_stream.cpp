// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_stream.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "data/tokens/token_block.h"
#include "data/tokens/epoch_order.h"
#include "files/sha256.h"

namespace gradmill {
namespace {

TokenStreamOptions checked(TokenStreamOptions options, const RecordEncoding& encoding) {
  options.pack.block_tokens = PackOptions{}.block_tokens;
  options.pack = checked_pack_options(options.pack);
  options.read.fields = encoding.fields;
  check_loader_options(options.loader, options.pack.context);
  return options;
}

RecordBlocksOptions blocks_options(const TokenStreamOptions& options) {
  return {.read = options.read,
          .block_bytes = options.block_bytes,
          .endless = true,
          .shuffle = options.loader.shuffle,
          .seed = options.loader.seed};
}

// Maps units and blocks to one number. A collision would only mean that two blocks are shuffled alike.
int64_t row_stream(const BlockPlace& place) { return 1 + place.unit + place.block * 1'000'003; }

}  // namespace

struct TokenStream::Job {
  RecordBlock block;
  HeldBytes held;
};

struct TokenStream::Rows {
  TokenBlock tokens;
  RowList rows;  // in the order of this epoch
  HeldBytes held;

  std::span<const Piece> row(int64_t index) const { return rows.rows(index, index + 1); }
  int64_t num_tokens(int64_t index) const {
    int64_t count = 0;
    for (const Piece& piece : row(index)) count += piece.length;
    return count;
  }
  void add_to(PackedBatchBuilder& builder, const Piece& piece) const {
    const PackedBatchBuilder::Sequence sequence = builder.add(piece.length);
    const auto from = tokens.tokens.begin() + piece.begin;
    std::copy_n(from, piece.length, sequence.tokens.begin());
    const int64_t known = num_known(piece);
    std::copy_n(from + 1, known, sequence.targets.begin());
    const std::span<const uint8_t> learned = tokens.learned_of(piece.begin + 1, piece.begin + 1 + known);
    for (size_t i = 0; i < learned.size(); ++i) {
      if (learned[i] == 0) sequence.targets[i] = kIgnoredTarget;
    }
  }
  int64_t num_targets(int64_t index) const {
    int64_t count = 0;
    for (const Piece& piece : row(index)) {
      const int64_t known = num_known(piece);
      const std::span<const uint8_t> learned = tokens.learned_of(piece.begin + 1, piece.begin + 1 + known);
      count += known - std::ranges::count(learned, 0);
    }
    return count;
  }
  // The number of tokens in the piece that are followed by another token.
  static int64_t num_known(const Piece& piece) { return piece.length - (piece.has_next ? 0 : 1); }
};

TokenStream::TokenStream(std::vector<SourceFile> files, RecordEncoding encoding, TokenStreamOptions options,
                         const StreamPosition& from)
    : encoding_(std::move(encoding)),
      options_(checked(std::move(options), encoding_)),
      blocks_(std::move(files), blocks_options(options_), from.block),
      bad_(options_.read.bad_records),
      step_(from.step),
      place_(from.block),
      row_(from.row) {
  Sha256 hash;
  hash.add(fmt::format("{} {} {} {} {} {}", blocks_.fingerprint(), encoding_.fingerprint,
                       static_cast<int>(options_.pack.mode), options_.pack.context, options_.pack.row_documents,
                       options_.loader.batch_size));
  fingerprint_ = std::stoull(hash.hex().substr(0, 16), nullptr, 16);
  if (from.fingerprint != 0 && from.fingerprint != fingerprint_) {
    throw data_error("the data, the tokenizer or the packing differs from what this stream began with",
                     "resume with the same files and settings, or start a new run");
  }
  const auto take = [this]() -> std::optional<Job> {
    std::optional<RecordBlock> block = blocks_.next();
    if (!block) return std::nullopt;
    HeldBytes held(gauge_, block->num_bytes());
    return Job{std::move(*block), std::move(held)};
  };
  crew_ = std::make_unique<Crew<Job, Rows>>(
      take, [this](const Job& job) { return make(job); },
      CrewOptions{.num_workers = options_.loader.num_threads,
                  .ahead = options_.loader.num_threads + 1,
                  .note = options_.loader.note});
}

TokenStream::~TokenStream() = default;

TokenStream::Rows TokenStream::make(const Job& job) const {
  Rows result{encode_block(job.block, encoding_, options_.read), {}, {}};
  std::vector<int64_t> ends = result.tokens.ends;
  if (result.tokens.has_open_document()) ends.push_back(std::ssize(result.tokens.tokens));
  result.rows = pack_documents(ends, options_.pack);
  if (options_.loader.shuffle) {
    const BlockPlace& place = job.block.place;
    result.rows =
        in_order(result.rows, shuffled(result.rows.num_rows(), options_.loader.seed, place.epoch, row_stream(place)));
  }
  result.held = HeldBytes(gauge_, result.tokens.num_bytes() + result.rows.num_bytes());
  return result;
}

void TokenStream::next_block() {
  std::optional<Rows> rows = crew_->next();
  if (!rows) throw data_error("there is nothing to stream: all data files are empty", "give files with text");
  const BlockPlace& place = rows->tokens.place;
  num_records_ += rows->tokens.num_records;
  bad_.merge(rows->tokens.bad);
  if (rows->rows.num_rows() > 0) {
    empty_blocks_from_ = -1;
  } else if (empty_blocks_from_ < 0) {
    empty_blocks_from_ = place.epoch;
  } else if (place.epoch > empty_blocks_from_ + 1) {  // a whole epoch, wherever the stream began
    const std::string skipped = bad_.summary();
    throw data_error(fmt::format("the data contains no tokens{}{}", skipped.empty() ? "" : ": ", skipped),
                     "check the files and the column that holds the text");
  }
  place_ = place;
  block_ = std::make_shared<const Rows>(std::move(*rows));
}

TokenStream::RowsOfStep TokenStream::next_rows() {
  RowsOfStep rows;
  // Of a position, the row is within the first block.
  if (block_ == nullptr) next_block();
  while (std::ssize(rows) < options_.loader.batch_size) {
    if (row_ < block_->rows.num_rows()) {
      rows.emplace_back(block_, row_++);
    } else {
      next_block();
      row_ = 0;
    }
  }
  return rows;
}

std::vector<MicroBatch> TokenStream::micro_batches(const RowsOfStep& rows, std::span<const int64_t> tokens_before,
                                                   int64_t rank) const {
  const PackedLoaderOptions& loader = options_.loader;
  const int64_t size = loader.batch_size / loader.num_ranks, context = options_.pack.context;
  const int64_t most = loader.micro_batch_size == 0 ? size : std::min(size, loader.micro_batch_size);
  std::vector<MicroBatch> batches;
  for (const auto [first, last] : even_parts(rank * size, size, most)) {
    PackedBatchBuilder builder(most, context, most * options_.pack.row_documents);
    for (int64_t i = first; i < last; ++i) {
      const auto& [block, row] = rows[static_cast<size_t>(i)];
      for (const Piece& piece : block->row(row)) block->add_to(builder, piece);
    }
    batches.push_back(builder.finish());
    batches.back().token_base = tokens_before[static_cast<size_t>(first)];
  }
  return batches;
}

StepBatch TokenStream::next() {
  const Stopwatch watch;
  const auto rows = next_rows();
  loader_.crew.wait_seconds += watch.seconds();
  const PackedLoaderOptions& loader = options_.loader;
  StepBatch batch;
  batch.step = step_;
  std::vector<int64_t> tokens_before = {0};
  for (const auto& [block, row] : rows) {
    tokens_before.push_back(tokens_before.back() + block->num_tokens(row));
    batch.num_targets += block->num_targets(row);
  }
  batch.micro = micro_batches(rows, tokens_before, loader.rank);
  for (const MicroBatch& micro : batch.micro) loader_.tokens += micro.cu_seqlens.back();
  if (loader.edit) {
    batch.num_tokens = tokens_before.back();
    batch.num_targets =
        edit_step(loader, step_, batch.micro, [&](int64_t rank) { return micro_batches(rows, tokens_before, rank); });
  }
  ++step_;
  ++loader_.steps;
  return batch;
}

StreamPosition TokenStream::position() const { return {step_, place_, row_, fingerprint_}; }

StreamStats TokenStream::stats() const {
  StreamStats stats{loader_, num_records_, place_.epoch, gauge_.held(), gauge_.peak()};
  const double waited = stats.loader.crew.wait_seconds;
  stats.loader.crew = crew_->stats();
  stats.loader.crew.wait_seconds = waited;
  return stats;
}

std::string StreamPosition::to_string() const {
  return fmt::format("{} {} {} {} {} {:016x}", step, block.epoch, block.unit, block.block, row, fingerprint);
}

StreamPosition StreamPosition::parse(std::string_view text) {
  StreamPosition position;
  const std::string_view whole = text;
  const auto refused = [whole] {
    return data_error(fmt::format("'{}' is not a position in a stream", whole), "use one that a run has saved");
  };
  const auto read = [&](auto& value, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || std::cmp_less(value, 0)) throw refused();
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    text.remove_prefix(text.starts_with(' ') ? 1 : 0);
  };
  for (int64_t* value :
       {&position.step, &position.block.epoch, &position.block.unit, &position.block.block, &position.row}) {
    read(*value, 10);
  }
  read(position.fingerprint, 16);
  if (!text.empty()) throw refused();
  return position;
}

}  // namespace gradmill
