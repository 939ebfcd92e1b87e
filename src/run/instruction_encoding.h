// SPDX-License-Identifier: Apache-2.0
// Instructions as documents of tokens, of which some are learned.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "data/chat/instruction_example.h"
#include "data/tokens/record_encoding.h"
#include "data/records/source_list.h"
#include "run/run_tokenizer.h"

namespace gradmill {

// What was noticed about examples, by any thread.
class InstructionLog {
 public:
  void add(const InstructionCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts_.merge(counts);
  }
  // As InstructionCounts::summary.
  std::string summary() const {
    const std::lock_guard lock(mutex_);
    return counts_.summary();
  }

 private:
  mutable std::mutex mutex_;
  InstructionCounts counts_;
};

// Records in any of the usual shapes (InstructionEncoder), cut to max_length tokens. The log is shared with the
// encoding's copies. Throws a data_error for a chat template that cannot be used.
RecordEncoding instruction_encoding(const RunTokenizer& tokenizer, int64_t max_length,
                                    std::shared_ptr<InstructionLog> log);
// Throws a data_error for a file of plain text.
void check_instruction_files(std::span<const SourceFile> files);

}  // namespace gradmill
