// SPDX-License-Identifier: Apache-2.0
// Encodes instruction records as documents of tokens, some of which are learned.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "data/chat/instruction_example.h"
#include "data/tokens/record_encoding.h"
#include "data/records/source_list.h"
#include "run/run_tokenizer.h"

namespace gradmill {

// Counts what was noticed about examples. Any thread may add to it.
class InstructionLog {
 public:
  void add(const InstructionCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts_.merge(counts);
  }
  // The text of InstructionCounts::summary.
  std::string summary() const {
    const std::lock_guard lock(mutex_);
    return counts_.summary();
  }

 private:
  mutable std::mutex mutex_;
  InstructionCounts counts_;
};

// Encodes records in any of the usual shapes (InstructionEncoder), cut to max_length tokens. Copies of the encoding
// share the log. Throws a data_error if the chat template cannot be used.
RecordEncoding instruction_encoding(const RunTokenizer& tokenizer, int64_t max_length,
                                    std::shared_ptr<InstructionLog> log);
// Throws a data_error if a file is plain text.
void check_instruction_files(std::span<const SourceFile> files);

}  // namespace gradmill
