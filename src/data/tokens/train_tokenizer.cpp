// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/train_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/records/record_stream.h"
#include "files/fresh_target.h"
#include "files/output_file.h"

namespace gradmill {
namespace {

// The settings that transformers' AutoTokenizer needs in addition to tokenizer.json.
nlohmann::ordered_json config_of(const std::vector<std::string>& special_tokens) {
  nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"clean_up_tokenization_spaces", false},
                                 {"model_max_length", int64_t{1} << 30}};
  if (!special_tokens.empty()) json["bos_token"] = json["eos_token"] = special_tokens.front();
  return json;
}

nlohmann::ordered_json special_tokens_of(const std::vector<std::string>& special_tokens) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!special_tokens.empty()) json["bos_token"] = json["eos_token"] = special_tokens.front();
  return json;
}

void feed_all(BpeTrainer& trainer, RecordStream& stream, const TrainTokenizerOptions& options,
              TrainTokenizerReport& report) {
  constexpr int64_t kRecordsPerReport = 4096;
  for (Record record; stream.next(record);) {
    const std::string& text = record.find(options.column)->value;
    trainer.feed(text);
    ++report.records;
    report.text_bytes += std::ssize(text);
    if (options.max_bytes > 0 && report.text_bytes >= options.max_bytes) return;
    if (options.progress && report.records % kRecordsPerReport == 0 &&
        !options.progress(report.records, report.text_bytes)) {
      throw Error(ExitCode::interrupted, "interrupted: nothing was written", "");
    }
  }
}

}  // namespace

TrainTokenizerReport train_tokenizer(std::vector<SourceFile> files, const std::filesystem::path& out,
                                     const TrainTokenizerOptions& options, FileOps& ops) {
  if (options.bpe.vocab_size < 1 || options.bpe.vocab_size > INT32_MAX) {
    throw usage_error(fmt::format("the vocabulary's size is {}", options.bpe.vocab_size), "give 1 to 2147483647");
  }
  BpeTrainer trainer(options.bpe);
  ReadOptions read = options.read;
  read.fields = {{options.column}};
  RecordStream stream(std::move(files), read);
  FreshTarget folder(ops, out, FreshTarget::Kind::folder);
  TrainTokenizerReport report;
  feed_all(trainer, stream, options, report);
  report.skipped = stream.bad_records().summary();
  if (report.text_bytes == 0) {
    throw data_error(fmt::format("the data contains no text{}{}", report.skipped.empty() ? "" : ": ", report.skipped),
                     "check the files and the column that holds the text");
  }
  const TrainedBpe trained = trainer.train();
  report.vocab_size = std::ssize(trained.tokens);
  report.num_merges = std::ssize(trained.merges);
  replace_file(folder.path() / "tokenizer.json", trained.to_json(), ops);
  replace_file(folder.path() / "tokenizer_config.json", config_of(options.bpe.special_tokens).dump(2) + "\n", ops);
  replace_file(folder.path() / "special_tokens_map.json", special_tokens_of(options.bpe.special_tokens).dump(2) + "\n",
               ops);
  folder.publish();
  return report;
}

}  // namespace gradmill
