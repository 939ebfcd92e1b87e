// SPDX-License-Identifier: Apache-2.0
// The cut of a ShardSet into rows of at most `context` tokens, and rows into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/tokens/shard_set.h"

namespace gradmill {

enum class PackMode : uint8_t {
  // Whole documents side by side, best fit first. Attention does not cross them, positions begin at 0 in each, and the
  // last token of a document has no target. Longer ones are cut at multiples of the context.
  documents,
  // All tokens one after the other, cut every `context`: nothing is padded but the last row, attention and targets
  // cross from one document into the next.
  concatenated,
};

struct PackOptions {
  PackMode mode = PackMode::documents;
  int64_t context = 0;
  // The most documents a row may hold, so that batches have room for their offsets; 0 = as many as
  // default_row_documents says. Meaningless with concatenated.
  int64_t row_documents = 0;
  // Tokens of a block: documents of one block share rows and are read together. Larger ones pack tighter and mix
  // better.
  int64_t block_tokens = int64_t{1} << 22;
};

// One for 16 tokens, but at least 16 or as many as there are tokens. Documents of 60 tokens on average then fill 98% of
// a row, longer ones more; half as many would be 90%, because the shortest are left for the last rows.
int64_t default_row_documents(int64_t context);

// Tokens that see each other: a document, a part of one, or a window of the stream.
struct Piece {
  int64_t begin = 0;  // in the ShardSet
  int32_t length = 0;
  bool has_next = false;  // the token behind it is its last target
};

// Rows of pieces: row r has pieces[row_begin[r]] to pieces[row_begin[r + 1]].
struct RowList {
  std::vector<Piece> pieces;
  std::vector<int64_t> row_begin = {0};

  int64_t num_rows() const { return static_cast<int64_t>(row_begin.size()) - 1; }
  // Of the rows [first, last).
  std::span<const Piece> rows(int64_t first, int64_t last) const;
  void add_row(std::span<const Piece> row);
  int64_t num_bytes() const;  // in memory
};
// The rows in another order.
RowList in_order(const RowList& rows, std::span<const int32_t> order);

// Tokens [begin, end) of a ShardSet.
struct TokenRange {
  int64_t begin = 0, end = 0;
};

// The document that has the token.
int64_t document_of(const ShardSet& shards, int64_t token);

// Every token of the range is in exactly one row. Rows belong to blocks; a block's rows are a function of the shards,
// the options and its number, and take a bounded amount of memory whatever the documents are like. Holds 24 bytes a
// block. Constant: any thread may use it.
class PackPlan {
 public:
  // `shards` must outlive it. Goes once over the lengths of all documents. Throws a usage_error for a size out of
  // range, a data_error where there is no token.
  PackPlan(const ShardSet& shards, const PackOptions& options) : PackPlan(shards, options, {0, shards.num_tokens()}) {}
  // Of a part of the tokens, which must exist. A document that reaches beyond it is cut there.
  PackPlan(const ShardSet& shards, const PackOptions& options, const TokenRange& range);

  const ShardSet& shards() const { return shards_; }
  int64_t context() const { return options_.context; }
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t num_rows() const { return blocks_.back().first_row; }
  int64_t num_rows(int64_t block) const { return at(block + 1).first_row - at(block).first_row; }
  // The most sequences a row can hold.
  int64_t seqs_per_row() const { return options_.row_documents; }
  RowList block(int64_t block) const;

 private:
  struct Block {
    int64_t first_token, first_document, first_row;
  };
  const Block& at(int64_t block) const { return blocks_[static_cast<size_t>(block)]; }
  // The pieces of the block that begins at `block`, which is moved to the end of them.
  std::vector<Piece> cut(Block& block) const;
  std::vector<Piece> cut_stream(Block& block) const;

  const ShardSet& shards_;
  PackOptions options_;
  TokenRange range_;
  std::vector<Block> blocks_;  // and the end of the last
};

// The same for tokens in memory: rows of the documents that end at `ends`, which never fall. Piece::begin counts from
// the first token; nothing reaches beyond the last.
RowList pack_documents(std::span<const int64_t> ends, const PackOptions& options);
// The options with their defaults filled in. Throws a usage_error for a size out of range.
PackOptions checked_pack_options(PackOptions options);

// A micro-batch made of sequences, in order and without gaps. Capacity for num_rows * context tokens and max_seqs
// sequences, which must be enough.
class PackedBatchBuilder {
 public:
  PackedBatchBuilder(int64_t num_rows, int64_t context, int64_t max_seqs);

  struct Sequence {
    std::span<int32_t> tokens, targets;  // to be written; targets are kIgnoredTarget before
  };
  Sequence add(int32_t length);
  // token_base is left 0. Nothing may follow.
  MicroBatch finish();

 private:
  MicroBatch batch_;
  size_t row_ = 0;
};

// One sequence a piece. Targets that are not learned are kIgnoredTarget.
MicroBatch make_packed_batch(const ShardSet& shards, std::span<const Piece> pieces, int64_t num_rows, int64_t context,
                             int64_t max_seqs);
// The targets that make_packed_batch gives these pieces.
int64_t count_targets(const ShardSet& shards, std::span<const Piece> pieces);

}  // namespace gradmill
