// SPDX-License-Identifier: Apache-2.0
#include "data/pack.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/error.h"
#include "data/best_fit.h"

namespace gradmill {
namespace {

constexpr int64_t kMostContext = int64_t{1} << 24;
// Blocks of very short documents end here, which bounds their memory.
constexpr size_t kMostPieces = size_t{1} << 16;

PackOptions checked(PackOptions options) {
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

}  // namespace

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

PackPlan::PackPlan(const ShardSet& shards, const PackOptions& options) : shards_(shards), options_(checked(options)) {
  if (shards_.num_tokens() == 0) throw data_error("the token shards are empty", "give shards with at least one token");
  blocks_.push_back({0, 0, 0});
  while (blocks_.back().first_token < shards_.num_tokens()) {
    Block end = blocks_.back();
    end.first_row += pack(cut(end)).num_rows();
    blocks_.push_back(end);
  }
}

RowList PackPlan::block(int64_t block) const {
  Block begin = at(block);
  return pack(cut(begin));
}

std::vector<Piece> PackPlan::cut(Block& block) const {
  if (options_.mode == PackMode::concatenated) return cut_stream(block);
  std::vector<Piece> pieces;
  int64_t room = options_.block_tokens;
  while (block.first_document < shards_.num_documents() && pieces.size() < kMostPieces) {
    const int64_t end = shards_.document_end(block.first_document);
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
  const int64_t total = shards_.num_tokens();
  const auto count = std::min(static_cast<size_t>(options_.block_tokens / options_.context), kMostPieces);
  while (block.first_token < total && pieces.size() < count) {
    const int64_t length = std::min(options_.context, total - block.first_token);
    pieces.push_back({block.first_token, static_cast<int32_t>(length), block.first_token + length < total});
    block.first_token += length;
  }
  return pieces;
}

RowList PackPlan::pack(std::vector<Piece> pieces) const {
  RowList rows;
  if (options_.mode == PackMode::concatenated) {
    rows.row_begin.assign(pieces.size() + 1, 0);
    std::iota(rows.row_begin.begin(), rows.row_begin.end(), 0);
    rows.pieces = std::move(pieces);
    return rows;
  }
  std::vector<int32_t> lengths(pieces.size());
  std::transform(pieces.begin(), pieces.end(), lengths.begin(), [](const Piece& piece) { return piece.length; });
  const BinPacking bins = best_fit_decreasing(lengths, static_cast<int32_t>(options_.context),
                                              static_cast<int32_t>(options_.row_documents));
  // A counting sort by row; within a row documents stay in the order of the file.
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

MicroBatch make_packed_batch(const ShardSet& shards, std::span<const Piece> pieces, int64_t num_rows, int64_t context,
                             int64_t max_seqs) {
  assert(std::ssize(pieces) <= max_seqs);
  MicroBatch batch = empty_micro_batch(num_rows * context, max_seqs);
  size_t row = 0;
  for (const Piece& piece : pieces) {
    const auto length = static_cast<size_t>(piece.length);
    assert(row + length <= batch.tokens.size());
    const std::span<int32_t> tokens = std::span(batch.tokens).subspan(row, length);
    shards.read(piece.begin, tokens);
    const std::span<int32_t> targets = std::span(batch.targets).subspan(row, length);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    if (piece.has_next) shards.read(piece.begin + piece.length, targets.last(1));
    const auto positions = batch.positions.begin() + static_cast<ptrdiff_t>(row);
    std::iota(positions, positions + piece.length, 0);
    row += length;
    batch.num_targets += piece.length - (piece.has_next ? 0 : 1);
    batch.cu_seqlens[static_cast<size_t>(++batch.num_seqs)] = static_cast<int32_t>(row);
  }
  std::fill(batch.cu_seqlens.begin() + batch.num_seqs + 1, batch.cu_seqlens.end(), static_cast<int32_t>(row));
  return batch;
}

}  // namespace gradmill
