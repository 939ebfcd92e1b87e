// SPDX-License-Identifier: Apache-2.0
#include "run/instruction_encoding.h"

#include <utility>

#include "data/chat/instruction_encoder.h"
#include "core/error.h"

namespace gradmill {
namespace {

// Templates may contain the date. The real date would give other tokens for the same data tomorrow.
std::tm fixed_date() {
  std::tm date = {};
  date.tm_year = 2025 - 1900;
  date.tm_mday = 1;
  date.tm_wday = 3;
  return date;
}

}  // namespace

RecordEncoding instruction_encoding(const RunTokenizer& tokenizer, int64_t max_length,
                                    std::shared_ptr<InstructionLog> log) {
  ChatFormat format = tokenizer.folder.empty() ? ChatFormat{} : load_chat_template(tokenizer.folder);
  InstructionOptions options;
  options.max_length = max_length;
  options.now = fixed_date();
  const auto encoder = std::make_shared<const InstructionEncoder>(tokenizer.tokenizer, std::move(format), options);
  RecordEncoding encoding;
  encoding.vocab = vocab_id(*tokenizer.tokenizer);
  encoding.has_learned = true;
  encoding.fingerprint = fmt::format("instruct {} {}", tokenizer.hash, max_length);
  encoding.encode = [encoder, log = std::move(log)](const Record& record, TokenDocument& document) {
    InstructionCounts counts;
    try {
      std::optional<InstructionExample> example = encoder->encode(record, counts);
      document = example ? TokenDocument{std::move(example->ids), std::move(example->learned)} : TokenDocument{};
    } catch (const BadExample& fault) {
      throw data_error(fault.what(), "");
    }
    log->add(counts);
  };
  return encoding;
}

void check_instruction_files(std::span<const SourceFile> files) {
  for (const SourceFile& file : files) {
    if (file.format != RecordFormat::text) continue;
    throw data_error(fmt::format("'{}' is plain text, but instructions are records", file.path.string()),
                     "use .jsonl, .csv or .tsv files, or the task 'text'");
  }
}

}  // namespace gradmill
