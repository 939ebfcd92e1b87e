// SPDX-License-Identifier: Apache-2.0
// What a run learns from: characters of one text, or tokens of any data.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"

namespace gradmill {

struct DataConfig {
  static constexpr int64_t kAutoWorkers = -1;

  std::string dataset = "self";
  int64_t max_chars = 0;
  bool download = false;
  std::string path, tokenizer;
  std::string task = "text", column = "text", eos = "auto";
  bool lines = false;
  std::string packing = "documents";
  bool streaming = false;
  std::string cache;
  std::string bad_records = "error";
  std::string validation_path;
  double validation_fraction = 0.1;
  int64_t num_workers = 1;

  void visit(FieldList& field) {
    field("dataset", &dataset, "characters of: self (built in), shakespeare, or the path of a UTF-8 text", anything());
    field("max_chars", &max_chars, "characters read, from the start", at_least(0).or_unset("all"));
    field("download", &download, "fetch a named data set that is not here", anything());
    field("path", &path,
          "tokens of: a file, a folder or a pattern, or several with commas between them (.jsonl .csv .tsv .txt, also "
          ".gz and .zst), or a folder of token shards; needs a tokenizer",
          anything().or_unset("characters of the dataset"));
    field("tokenizer", &tokenizer,
          "a tokenizer.json, a SentencePiece .model, a vocab.txt, a folder with one of them, or byte: one token a byte",
          anything().or_unset("characters"));
    field("task", &task,
          "what a record is: text, or an instruction, of which only the answer is learned (messages, prompt and "
          "completion, Alpaca, ShareGPT; the chat template is the tokenizer's)",
          one_of({"text", "instruct"}));
    field("column", &column, "the column or field that holds the text", anything());
    field("eos", &eos, "the token that ends a document: auto (the tokenizer's own), none, or its name", anything());
    field("lines", &lines, "every line of a .txt file is a document; otherwise the file is one", anything());
    field("packing", &packing,
          "rows of whole documents, which do not see each other, or of all tokens one after the other",
          one_of({"documents", "concatenated"}));
    field("streaming", &streaming,
          "tokenise while training, without files and for data of any size; needs a validation_path and training.steps",
          anything());
    field("cache", &cache, "folder that keeps tokenised data", anything().or_unset("~/.cache/gradmill/tokens"));
    field("bad_records", &bad_records, "what happens with a record that cannot be used; skipped ones are counted",
          one_of({"error", "skip"}));
    field("validation_path", &validation_path, "data to validate on, as path",
          anything().or_unset("a part of the training data"));
    field("validation_fraction", &validation_fraction,
          "fraction held out for validation, from the end (of tokens: whole documents where they are short enough)",
          between(0.001, 0.9));
    field("num_workers", &num_workers, "threads that prepare batches; auto is all cores but two",
          between(0, 1024).or_word("auto", kAutoWorkers).or_unset("the training thread does it"));
  }
};

}  // namespace gradmill
