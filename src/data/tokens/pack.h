// SPDX-License-Identifier: Apache-2.0
// Cuts a ShardSet into rows of at most `context` tokens, and makes batches of rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/tokens/shard_set.h"

namespace gradmill {

enum class PackMode : uint8_t {
  // Packs whole documents into rows, best fit first. Attention does not cross documents, positions begin at 0 in each,
  // and the last token of a document has no target. Longer documents are cut at multiples of the context.
  documents,
  // Joins all tokens and cuts them every `context` tokens. Only the last row is padded; attention and targets cross
  // from one document into the next.
  concatenated,
};

struct PackOptions {
  PackMode mode = PackMode::documents;
  int64_t context = 0;
  // The largest number of documents per row, so that batches have space for their offsets; 0: default_row_documents().
  // Unused with concatenated.
  int64_t row_documents = 0;
  // Tokens per block. Documents of one block share rows and are read together. Larger blocks pack tighter and mix
  // better.
  int64_t block_tokens = int64_t{1} << 22;
};

// One per 16 tokens, but at least 16 or the number of tokens. Documents of 60 tokens on average then fill 98% of a row,
// and longer ones more. With half as many it would be 90%, because the shortest documents remain for the last rows.
int64_t default_row_documents(int64_t context);

// Tokens that attend to each other: a document, a part of one, or a window of the stream.
struct Piece {
  int64_t begin = 0;  // position in the ShardSet
  int32_t length = 0;
  bool has_next = false;  // the token after it is its last target
};

// Rows of pieces: row r has pieces[row_begin[r]] to pieces[row_begin[r + 1] - 1].
struct RowList {
  std::vector<Piece> pieces;
  std::vector<int64_t> row_begin = {0};

  int64_t num_rows() const { return static_cast<int64_t>(row_begin.size()) - 1; }
  // The pieces of rows [first, last).
  std::span<const Piece> rows(int64_t first, int64_t last) const;
  void add_row(std::span<const Piece> row);
  int64_t num_bytes() const;  // in memory
};
// The same rows in another order.
RowList in_order(const RowList& rows, std::span<const int32_t> order);

// Tokens [begin, end) of a ShardSet.
struct TokenRange {
  int64_t begin = 0, end = 0;
};

// The document that contains the token.
int64_t document_of(const ShardSet& shards, int64_t token);

// Every token of the range is in exactly one row. Rows belong to blocks. The rows of a block depend only on the shards,
// the options and the block's number, and take a limited amount of memory for any documents. The plan takes 24 bytes
// per block. Immutable; any thread may use it.
class PackPlan {
 public:
  // `shards` must outlive the plan. Reads the lengths of all documents once. Throws a usage_error for a size out of
  // range, and a data_error if there are no tokens.
  PackPlan(const ShardSet& shards, const PackOptions& options) : PackPlan(shards, options, {0, shards.num_tokens()}) {}
  // Plans only a part of the tokens, which must exist. A document that extends beyond it is cut.
  PackPlan(const ShardSet& shards, const PackOptions& options, const TokenRange& range);

  const ShardSet& shards() const { return shards_; }
  int64_t context() const { return options_.context; }
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t num_rows() const { return blocks_.back().first_row; }
  int64_t num_rows(int64_t block) const { return at(block + 1).first_row - at(block).first_row; }
  // The largest number of sequences per row.
  int64_t seqs_per_row() const { return options_.row_documents; }
  RowList block(int64_t block) const;

 private:
  struct Block {
    int64_t first_token, first_document, first_row;
  };
  const Block& at(int64_t block) const { return blocks_[static_cast<size_t>(block)]; }
  // The pieces of the block that begins at `block`. Moves `block` to their end.
  std::vector<Piece> cut(Block& block) const;
  std::vector<Piece> cut_stream(Block& block) const;

  const ShardSet& shards_;
  PackOptions options_;
  TokenRange range_;
  std::vector<Block> blocks_;  // plus the end of the last block
};

// The same for tokens in memory: rows of the documents that end at `ends`, which must not decrease. Piece::begin counts
// from the first token; no piece extends beyond the last.
RowList pack_documents(std::span<const int64_t> ends, const PackOptions& options);
// Fills in the defaults. Throws a usage_error for a size out of range.
PackOptions checked_pack_options(PackOptions options);

// Builds a micro-batch from sequences, in order and without gaps. Its capacity, num_rows * context tokens and max_seqs
// sequences, must suffice.
class PackedBatchBuilder {
 public:
  PackedBatchBuilder(int64_t num_rows, int64_t context, int64_t max_seqs);

  struct Sequence {
    std::span<int32_t> tokens, targets;  // to be written; targets are kIgnoredTarget before
  };
  Sequence add(int32_t length);
  // Leaves token_base at 0. No sequence may be added afterwards.
  MicroBatch finish();

 private:
  MicroBatch batch_;
  size_t row_ = 0;
};

// One sequence a piece. Targets that are not learned are kIgnoredTarget.
MicroBatch make_packed_batch(const ShardSet& shards, std::span<const Piece> pieces, int64_t num_rows, int64_t context,
                             int64_t max_seqs);
// The number of targets that make_packed_batch would give these pieces.
int64_t count_targets(const ShardSet& shards, std::span<const Piece> pieces);

}  // namespace gradmill
