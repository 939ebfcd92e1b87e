// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/tokenize.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "data/tokens/token_block.h"
#include "data/crew.h"
#include "data/tokens/token_shard_writer.h"
#include "files/fresh_target.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

// Writes documents to one shard after the other.
class ShardSequence {
 public:
  ShardSequence(const fs::path& folder, const RecordEncoding& encoding, int64_t shard_tokens, FileOps& ops)
      : folder_(folder), encoding_(encoding), shard_tokens_(shard_tokens), ops_(ops) {}

  void add(const TokenBlock& block) {
    int64_t begin = 0;
    for (int64_t end : block.ends) {
      add_tokens(block, std::exchange(begin, end), end);
      end_document();
    }
    if (begin < std::ssize(block.tokens)) add_tokens(block, begin, std::ssize(block.tokens));
    if (block.ends_unit && is_open_) end_document();
  }

  std::vector<TokenManifest::Shard> finish() {
    if (writer_) finish_shard();
    return std::move(shards_);
  }

 private:
  void add_tokens(const TokenBlock& block, int64_t begin, int64_t end) {
    if (!writer_) {
      name_ = fmt::format("shard-{:05}{}", shards_.size(), kShardEnding);
      const LearnedPlane plane = encoding_.has_learned ? LearnedPlane::present : LearnedPlane::absent;
      writer_ = std::make_unique<TokenShardWriter>(folder_ / name_, encoding_.vocab, plane, ops_);
    }
    const auto tokens = std::span(block.tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    writer_->add_tokens(tokens, block.learned_of(begin, end));
    is_open_ = true;
  }

  void end_document() {
    writer_->end_document();
    is_open_ = false;
    if (writer_->num_tokens() >= shard_tokens_) finish_shard();
  }

  void finish_shard() {
    shards_.push_back({name_, writer_->num_tokens(), writer_->num_documents()});
    writer_->finish();
    writer_.reset();
  }

  const fs::path& folder_;
  const RecordEncoding& encoding_;
  int64_t shard_tokens_;
  FileOps& ops_;
  std::unique_ptr<TokenShardWriter> writer_;
  std::string name_;
  bool is_open_ = false;  // a document has been started
  std::vector<TokenManifest::Shard> shards_;
};

void count(TokenizeProgress& progress, const TokenBlock& block) {
  progress.records += block.num_records;
  progress.tokens += std::ssize(block.tokens);
  progress.text_bytes += block.num_text_bytes;
}

}  // namespace

TokenizeReport tokenize_corpus(std::vector<SourceFile> files, const RecordEncoding& encoding, const fs::path& out,
                               TokenizeOptions options, FileOps& ops) {
  if (options.shard_tokens < 1) {
    throw usage_error(fmt::format("the tokens of a shard are {}", options.shard_tokens), "give at least 1");
  }
  options.read.fields = encoding.fields;
  TokenizeReport report;
  for (const SourceFile& file : files) report.manifest.sources.push_back(file.path.string());
  RecordBlocks blocks(std::move(files), {.read = options.read, .block_bytes = options.block_bytes});
  FreshTarget folder(ops, out, FreshTarget::Kind::folder);
  ShardSequence shards(folder.path(), encoding, options.shard_tokens, ops);
  BadRecords bad(options.read.bad_records);
  const Stopwatch watch;
  Crew<RecordBlock, TokenBlock> crew(
      [&] { return blocks.next(); },
      [&](const RecordBlock& block) { return encode_block(block, encoding, options.read); },
      {.num_workers = options.num_threads, .ahead = options.num_threads * 2 + 1, .note = options.note});
  while (const std::optional<TokenBlock> block = crew.next()) {
    shards.add(*block);
    bad.merge(block->bad);
    count(report.progress, *block);
    report.progress.seconds = watch.seconds();
    if (options.progress && !options.progress(report.progress)) {
      throw Error(ExitCode::interrupted, "interrupted: nothing was written", "");
    }
  }
  report.skipped = bad.summary();
  if (report.progress.tokens == 0) {
    throw data_error(fmt::format("the data contains no tokens{}{}", report.skipped.empty() ? "" : ": ", report.skipped),
                     "check the files and the column that holds the text");
  }
  report.manifest.shards = shards.finish();
  report.manifest.vocab = encoding.vocab;
  report.manifest.has_learned = encoding.has_learned;
  report.manifest.records = report.progress.records;
  report.manifest.skipped = bad.num_skipped();
  report.manifest.encoding = encoding.fingerprint;
  write_token_manifest(folder.path(), report.manifest, ops);
  if (options.before_publishing) options.before_publishing();
  folder.publish();
  return report;
}

}  // namespace gradmill
