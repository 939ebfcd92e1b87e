// SPDX-License-Identifier: Apache-2.0
// What a run learns from: characters of one text, tokens of any data, or labelled texts.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"
#include "config/task_kind.h"

namespace gradmill {

struct DataConfig {
  static constexpr int64_t kAutoWorkers = -1;

  std::string dataset = "self";
  int64_t max_chars = 0;
  bool download = false;
  std::string path, tokenizer;
  std::string task = "text", column = "text", eos = "auto";
  std::string first_column, second_column, label_column, group_column;
  std::string labels, class_weights;
  double mask_probability = 0.15;
  std::string truncation = "longest_first", order = "shuffled";
  bool lines = false;
  std::string packing = "documents";
  bool streaming = false;
  std::string cache;
  std::string bad_records = "error";
  std::string validation_path;
  double validation_fraction = 0.1;
  int64_t num_workers = 1;

  void visit(FieldList& field) {
    field("dataset", &dataset, "character-level text: self (built in), shakespeare, or the path of a UTF-8 file",
          anything());
    field("max_chars", &max_chars, "characters to read, from the start", at_least(0).or_unset("all"));
    field("download", &download, "download a named dataset that is not on disk", anything());
    field("path", &path,
          "data to tokenise: a file, a folder or a pattern, or several separated by commas (.jsonl .csv .tsv .txt, "
          "also .gz and .zst); or a folder of token shards. Needs a tokenizer",
          anything().or_unset("train on the characters of data.dataset"));
    field("tokenizer", &tokenizer,
          "a tokenizer.json, a SentencePiece .model, a vocab.txt, a folder with one of them, or byte (one token per "
          "byte)",
          anything().or_unset("that of model.path, or characters"));
    field("task", &task,
          "what a record is. text: a document. instruct: a conversation of which only the answers are learned "
          "(messages, prompt and completion, Alpaca or ShareGPT; formatted with the tokenizer's chat template). mask: "
          "a text in which an encoder learns to predict hidden tokens. classify, regress: a text or a pair of texts "
          "with a class or a number; both bring their own defaults (see 'gradmill config show task=classify')",
          one_of({kTaskNames.begin(), kTaskNames.end()}));
    field("column", &column, "column or field that holds the text", anything());
    field("eos", &eos, "token that ends a document: auto (the tokenizer's own), none, or its name", anything());
    field("mask_probability", &mask_probability,
          "mask: fraction of tokens to predict; 80% of them are hidden, 10% replaced, 10% left as they are",
          between(0.01, 0.9));
    field("first_column", &first_column, "classify, regress: column of the text, or of a pair's first text",
          anything().or_unset("chosen by name"));
    field("second_column", &second_column, "classify, regress: column of a pair's second text",
          anything().or_unset("chosen by name, or none"));
    field("label_column", &label_column, "classify, regress: column of the class or the number",
          anything().or_unset("label, labels or score"));
    field("group_column", &group_column,
          "classify, regress: records with the same value in this column stay on the same side of the split",
          anything().or_unset("none"));
    field("labels", &labels, "classify: comma-separated classes, in the order of their ids",
          anything().or_unset("the model's if they fit, otherwise the sorted labels of the data"));
    field("class_weights", &class_weights,
          "classify: weights of the classes in the loss: balanced, or comma-separated name:weight pairs",
          anything().or_unset("all equal"));
    field("truncation", &truncation,
          "classify, regress: which text of a pair is cut when the pair exceeds model.context tokens",
          one_of({"longest_first", "only_first", "only_second"}));
    field("order", &order,
          "classify, regress: order of the records in an epoch: shuffled, grouped (batches of similar lengths), or "
          "sequential (as in the file)",
          one_of({"shuffled", "grouped", "sequential"}));
    field("lines", &lines, "treat every line of a .txt file as a document, instead of the whole file", anything());
    field("packing", &packing,
          "how rows are filled: documents (whole documents that do not see each other), or concatenated (all tokens, "
          "one document after the other)",
          one_of({"documents", "concatenated"}));
    field("streaming", &streaming,
          "tokenise while training, without cache files, for data of any size; needs data.validation_path and "
          "training.steps",
          anything());
    field("cache", &cache, "folder that caches tokenised data", anything().or_unset("~/.cache/gradmill/tokens"));
    field("bad_records", &bad_records,
          "what to do with a record that cannot be used: stop with an error, or skip and count it",
          one_of({"error", "skip"}));
    field("validation_path", &validation_path, "validation data, given like data.path",
          anything().or_unset("a part of the training data"));
    field("validation_fraction", &validation_fraction,
          "fraction of the data held out for validation, from its end; token data is held out in whole documents if "
          "they are short enough",
          between(0.001, 0.9));
    field("num_workers", &num_workers, "threads that prepare batches; auto: all cores but two",
          between(0, 1024).or_word("auto", kAutoWorkers).or_unset("the training thread prepares them"));
  }

  // Settings that were checked name a task that there is.
  TaskKind kind() const { return find_task_kind(task).value_or(TaskKind::text); }
};

// Random changes to labelled training texts. Rates are fractions of words or tokens.
struct AugmentConfig {
  double synonyms = 0, swap = 0, deletion = 0, span_mask = 0, token_dropout = 0;
  std::string synonyms_file;

  bool on() const { return synonyms > 0 || swap > 0 || deletion > 0 || span_mask > 0 || token_dropout > 0; }

  void visit(FieldList& field) {
    const auto rate = [] { return between(0, 1).or_unset("off"); };
    field("synonyms", &synonyms, "fraction of words to replace by synonyms from synonyms_file", rate());
    field("swap", &swap, "fraction of words to swap with other words", rate());
    field("deletion", &deletion, "fraction of words to delete", rate());
    field("span_mask", &span_mask, "fraction of tokens to replace by the mask token, in runs", rate());
    field("token_dropout", &token_dropout, "fraction of tokens to replace by the unknown token", rate());
    field("synonyms_file", &synonyms_file, "file with a word, a tab and its comma-separated synonyms on each line",
          anything().or_unset("none"));
  }
};

}  // namespace gradmill
