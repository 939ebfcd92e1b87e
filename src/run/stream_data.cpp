// SPDX-License-Identifier: Apache-2.0
#include "run/stream_data.h"

#include <utility>

#include "core/error.h"
#include "files/sha256.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

class StreamSource final : public BatchSource {
 public:
  StreamSource(std::vector<SourceFile> files, const RecordEncoding& encoding, const TokenStreamOptions& options,
               const StreamPosition& from)
      : note_(options.loader.note), stream_(std::move(files), encoding, options, from) {}

  StepBatch next() override {
    StepBatch batch = stream_.next();
    tell_skipped();
    return batch;
  }
  LoaderStats stats() const override { return stream_.stats().loader; }
  std::string place() const override { return stream_.position().to_string(); }

 private:
  // Notes the first skipped record, and again whenever there are ten times as many.
  void tell_skipped() {
    if (stream_.bad_records().num_skipped() < next_told_) return;
    while (next_told_ <= stream_.bad_records().num_skipped()) next_told_ *= 10;
    if (note_) note_(stream_.bad_records().summary());
  }

  CrewNote note_;
  int64_t next_told_ = 1;
  TokenStream stream_;
};

}  // namespace

StreamData::StreamData(const RunConfig& config, const RunDataOptions& options)
    : TextData(config.data.path, options.tokenizer ? *options.tokenizer : open_run_tokenizer(tokenizer_name(config))),
      task_(task_without_data(config)) {
  const TokenSource source(config, tokenizer_);
  files_ = source.files(config.data.path);
  encoding_ = source.encoding();
  streaming_.pack = pack_options(config);
  streaming_.loader = packed_loader_options(config);
  streaming_.loader.rank = options.rank;
  streaming_.loader.num_ranks = options.num_ranks;
  streaming_.read = source.read_options();
  origin_ = "streamed";
  Sha256 hash;
  hash.add(encoding_.fingerprint);
  for (const SourceFile& file : files_) {
    std::error_code ignored;
    hash.add(fmt::format("\n{} {}", file.path.string(), std::filesystem::file_size(file.path, ignored)));
  }
  hash_ = hash.hex();
  validation_.emplace(source.shards(config.data.validation_path, options).shards, streaming_.pack,
                      batch_shape(config, options.num_ranks).eval_seqs);
}

std::string StreamData::describe() const {
  return fmt::format("{} ({}): {} files, vocabulary {}; {} tokens for validation", name_, origin_, files_.size(),
                     tokenizer_.tokenizer->vocab_size(), validation_->num_tokens());
}

std::unique_ptr<BatchSource> StreamData::open_edited(const DataPosition& from, const CrewNote& note,
                                                     EditBatch edit) const {
  TokenStreamOptions options = streaming_;
  options.loader.note = note;
  options.loader.edit = std::move(edit);
  StreamPosition position = from.place.empty() ? StreamPosition{} : StreamPosition::parse(from.place);
  position.step = from.step;
  return std::make_unique<StreamSource>(files_, encoding_, options, position);
}

}  // namespace gradmill
