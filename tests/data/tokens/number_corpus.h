// SPDX-License-Identifier: Apache-2.0
// Data files whose texts are numbers, and an encoding that reads them as token ids, so that every token is unique.
#pragma once

#include <charconv>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/tokens/record_encoding.h"
#include "data/records/compressed.h"
#include "data/records/source_list.h"
#include "support/temporary_folder.h"

namespace gradmill::test {

inline constexpr VocabId kNumbers{99, 1 << 20};

// "1 2 3" is the ids 1, 2, 3. With `masked`, odd ids are not learned.
inline RecordEncoding number_encoding(bool masked = false) {
  RecordEncoding encoding;
  encoding.fields = {{"text"}};
  encoding.vocab = kNumbers;
  encoding.has_learned = masked;
  encoding.fingerprint = masked ? "masked numbers" : "numbers";
  encoding.encode = [masked](const Record& record, TokenDocument& document) {
    document.ids.clear();
    document.learned.clear();
    const std::string& text = record.find("text")->value;
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      TokenId id = 0;
      const auto [after, error] = std::from_chars(at, end, id);
      if (error != std::errc()) throw data_error("a text that is no number", "write numbers");
      document.ids.push_back(id);
      if (masked) document.learned.push_back(id % 2 == 0 ? 1 : 0);
      at = after;
      while (at < end && (*at == ' ' || *at == '\n')) ++at;
    }
  };
  return encoding;
}

// Documents of 0 to 40 tokens, and a few up to 400. Together they contain the numbers from 1 on.
class NumberCorpus {
 public:
  explicit NumberCorpus(uint64_t seed = 1) : random_(seed) {}

  std::string document() {
    const uint64_t kind = random_() % 20;
    std::string text;
    for (uint64_t count = kind == 0 ? 0 : kind == 1 ? random_() % 400 : random_() % 40; count > 0; --count) {
      text += fmt::format("{}{}", text.empty() ? "" : " ", ++last_);
    }
    return text;
  }
  std::string jsonl(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += fmt::format("{{\"id\": {}, \"text\": \"{}\"}}\n", i, document());
    return lines;
  }
  std::string csv(int count) {
    std::string lines = "id,text\n";
    for (int i = 0; i < count; ++i) lines += fmt::format("{},\"{}\"\n", i, document());
    return lines;
  }
  TokenId last() const { return last_; }

 private:
  std::mt19937_64 random_;
  TokenId last_ = 0;
};

inline std::vector<SourceFile> sources_of(const TemporaryFolder& folder, const std::string& name = "") {
  return list_sources(std::vector<std::string>{(folder.path() / name).string()});
}

// Two plain files, two compressed ones and a table.
inline TokenId write_numbers(const TemporaryFolder& folder, int count) {
  NumberCorpus corpus;
  folder.write("a.jsonl", corpus.jsonl(count));
  folder.write("b.jsonl", corpus.jsonl(count / 2));
  folder.write("c.jsonl.zst", zstd(corpus.jsonl(count)));
  folder.write("d.jsonl.gz", gzip(corpus.jsonl(count / 2)));
  folder.write("e.csv", corpus.csv(count / 2));
  return corpus.last();
}

}  // namespace gradmill::test
