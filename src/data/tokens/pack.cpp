// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/pack.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "data/tokens/best_fit.h"

namespace gradmill {
namespace {

constexpr int64_t kMostContext = int64_t{1} << 24;
// A block ends after this many pieces, to limit the memory for very short documents.
constexpr size_t kMostPieces = size_t{1} << 16;

RowList pack(std::vector<Piece> pieces, const PackOptions& options) {
  RowList rows;
  if (options.mode == PackMode::concatenated) {
    rows.row_begin.assign(pieces.size() + 1, 0);
    std::iota(rows.row_begin.begin(), rows.row_begin.end(), 0);
    rows.pieces = std::move(pieces);
    return rows;
  }
  std::vector<int32_t> lengths(pieces.size());
  std::transform(pieces.begin(), pieces.end(), lengths.begin(), [](const Piece& piece) { return piece.length; });
  const BinPacking bins =
      best_fit_decreasing(lengths, static_cast<int32_t>(options.context), static_cast<int32_t>(options.row_documents));
  // A counting sort by row. Within a row, documents stay in the order of the file.
  rows.row_begin.assign(static_cast<size_t>(bins.num_bins) + 1, 0);
  for (int32_t bin : bins.bin_of) ++rows.row_begin[static_cast<size_t>(bin) + 1];
  std::partial_sum(rows.row_begin.begin(), rows.row_begin.end(), rows.row_begin.begin());
  std::vector<int64_t> next(rows.row_begin.begin(), rows.row_begin.end() - 1);
  rows.pieces.resize(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    rows.pieces[static_cast<size_t>(next[static_cast<size_t>(bins.bin_of[i])]++)] = pieces[i];
  }
  return rows;
}

}  // namespace

int64_t document_of(const ShardSet& shards, int64_t token) {
  int64_t low = 0, high = shards.num_documents();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (shards.document_end(middle) > token) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

PackOptions checked_pack_options(PackOptions options) {
  if (options.context < 1 || options.context > kMostContext) {
    throw usage_error(fmt::format("the context is {}", options.context), fmt::format("give 1 to {}", kMostContext));
  }
  if (options.row_documents < 0) {
    throw usage_error(fmt::format("the documents of a row are {}", options.row_documents), "give a count, or 0");
  }
  if (options.block_tokens < 1 || options.block_tokens > int64_t{1} << 30) {
    throw usage_error(fmt::format("the tokens of a block are {}", options.block_tokens), "give 1 to 2^30");
  }
  options.block_tokens = std::max(options.block_tokens, options.context);
  if (options.row_documents == 0) options.row_documents = default_row_documents(options.context);
  options.row_documents = options.mode == PackMode::concatenated ? 1 : std::min(options.row_documents, options.context);
  return options;
}

int64_t default_row_documents(int64_t context) { return std::min(context, std::max<int64_t>(16, context / 16)); }

std::span<const Piece> RowList::rows(int64_t first, int64_t last) const {
  const auto begin = static_cast<size_t>(row_begin[static_cast<size_t>(first)]);
  const auto end = static_cast<size_t>(row_begin[static_cast<size_t>(last)]);
  return std::span(pieces).subspan(begin, end - begin);
}

void RowList::add_row(std::span<const Piece> row) {
  pieces.insert(pieces.end(), row.begin(), row.end());
  row_begin.push_back(std::ssize(pieces));
}

int64_t RowList::num_bytes() const {
  return static_cast<int64_t>(pieces.capacity() * sizeof(Piece) + row_begin.capacity() * sizeof(int64_t));
}

RowList in_order(const RowList& rows, std::span<const int32_t> order) {
  RowList result;
  result.pieces.reserve(rows.pieces.size());
  result.row_begin.reserve(rows.row_begin.size());
  for (int32_t row : order) result.add_row(rows.rows(row, row + 1));
  return result;
}

PackPlan::PackPlan(const ShardSet& shards, const PackOptions& options, const TokenRange& range)
    : shards_(shards), options_(checked_pack_options(options)), range_(range) {
  assert(range.begin >= 0 && range.end <= shards.num_tokens());
  if (range.begin >= range.end) throw data_error("the token shards are empty", "give shards with at least one token");
  blocks_.push_back({range.begin, document_of(shards, range.begin), 0});
  while (blocks_.back().first_token < range_.end) {
    Block end = blocks_.back();
    end.first_row += pack(cut(end), options_).num_rows();
    blocks_.push_back(end);
  }
}

RowList PackPlan::block(int64_t block) const {
  Block begin = at(block);
  return pack(cut(begin), options_);
}

std::vector<Piece> PackPlan::cut(Block& block) const {
  if (options_.mode == PackMode::concatenated) return cut_stream(block);
  std::vector<Piece> pieces;
  int64_t room = options_.block_tokens;
  while (block.first_token < range_.end && pieces.size() < kMostPieces) {
    const int64_t end = std::min(shards_.document_end(block.first_document), range_.end);
    const int64_t length = std::min(options_.context, end - block.first_token);
    if (length > room) break;
    if (length > 0) {
      pieces.push_back({block.first_token, static_cast<int32_t>(length), block.first_token + length < end});
      block.first_token += length;
      room -= length;
    }
    if (block.first_token == end) ++block.first_document;
  }
  return pieces;
}

std::vector<Piece> PackPlan::cut_stream(Block& block) const {
  std::vector<Piece> pieces;
  const int64_t total = range_.end;
  const auto count = std::min(static_cast<size_t>(options_.block_tokens / options_.context), kMostPieces);
  while (block.first_token < total && pieces.size() < count) {
    const int64_t length = std::min(options_.context, total - block.first_token);
    pieces.push_back({block.first_token, static_cast<int32_t>(length), block.first_token + length < total});
    block.first_token += length;
  }
  return pieces;
}

RowList pack_documents(std::span<const int64_t> ends, const PackOptions& options) {
  std::vector<Piece> pieces;
  const int64_t total = ends.empty() ? 0 : ends.back();
  const auto cut = [&](int64_t begin, int64_t end) {
    for (int64_t length = 0; begin < end; begin += length) {
      length = std::min(options.context, end - begin);
      pieces.push_back({begin, static_cast<int32_t>(length), begin + length < end});
    }
  };
  if (options.mode == PackMode::concatenated) {
    cut(0, total);
  } else {
    for (int64_t begin = 0; int64_t end : ends) cut(std::exchange(begin, end), end);
  }
  return pack(std::move(pieces), options);
}

PackedBatchBuilder::PackedBatchBuilder(int64_t num_rows, int64_t context, int64_t max_seqs)
    : batch_(empty_micro_batch(num_rows * context, max_seqs)) {}

PackedBatchBuilder::Sequence PackedBatchBuilder::add(int32_t length) {
  const auto size = static_cast<size_t>(length);
  assert(row_ + size <= batch_.tokens.size() && batch_.num_seqs + 1 < std::ssize(batch_.cu_seqlens));
  const Sequence sequence{std::span(batch_.tokens).subspan(row_, size), std::span(batch_.targets).subspan(row_, size)};
  const auto positions = batch_.positions.begin() + static_cast<ptrdiff_t>(row_);
  std::iota(positions, positions + length, 0);
  row_ += size;
  batch_.cu_seqlens[static_cast<size_t>(++batch_.num_seqs)] = static_cast<int32_t>(row_);
  return sequence;
}

MicroBatch PackedBatchBuilder::finish() {
  const auto end = static_cast<int32_t>(row_);
  std::fill(batch_.cu_seqlens.begin() + batch_.num_seqs + 1, batch_.cu_seqlens.end(), end);
  const auto targets = std::span(batch_.targets).first(row_);
  batch_.num_targets = std::ssize(targets) - std::ranges::count(targets, kIgnoredTarget);
  return std::move(batch_);
}

MicroBatch make_packed_batch(const ShardSet& shards, std::span<const Piece> pieces, int64_t num_rows, int64_t context,
                             int64_t max_seqs) {
  PackedBatchBuilder builder(num_rows, context, max_seqs);
  for (const Piece& piece : pieces) {
    const PackedBatchBuilder::Sequence sequence = builder.add(piece.length);
    shards.read(piece.begin, sequence.tokens);
    std::copy(sequence.tokens.begin() + 1, sequence.tokens.end(), sequence.targets.begin());
    if (piece.has_next) shards.read(piece.begin + piece.length, sequence.targets.last(1));
    const size_t known = sequence.targets.size() - (piece.has_next ? 0 : 1);
    shards.hide_unlearned(piece.begin + 1, sequence.targets.first(known), kIgnoredTarget);
  }
  return builder.finish();
}

int64_t count_targets(const ShardSet& shards, std::span<const Piece> pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) {
    const int64_t known = piece.length - (piece.has_next ? 0 : 1);
    count += shards.has_learned_plane() ? shards.count_learned(piece.begin + 1, known) : known;
  }
  return count;
}

}  // namespace gradmill
