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
    field(
        "task", &task,
        "what a record is: text; an instruction, of which only the answer is learned (messages, prompt and "
        "completion, Alpaca, ShareGPT; the chat template is the tokenizer's); a text of which an encoder learns hidden "
        "tokens (mask); a text or a pair of them with a class, or with a number. The last two bring their own defaults "
        "(see 'gradmill config show task=classify')",
        one_of({kTaskNames.begin(), kTaskNames.end()}));
    field("column", &column, "the column or field that holds the text", anything());
    field("eos", &eos, "the token that ends a document: auto (the tokenizer's own), none, or its name", anything());
    field("mask_probability", &mask_probability,
          "mask: the share of tokens that are asked for; of those 80% are hidden, 10% replaced, 10% stay",
          between(0.01, 0.9));
    field("first_column", &first_column, "classify, regress: the column of the text, or of the first of a pair",
          anything().or_unset("chosen by name"));
    field("second_column", &second_column, "classify, regress: the column of a pair's second text",
          anything().or_unset("chosen by name, or none"));
    field("label_column", &label_column, "classify, regress: the column of the class or the number",
          anything().or_unset("label, labels or score"));
    field("group_column", &group_column,
          "classify, regress: records with the same value here stay on one side of the split",
          anything().or_unset("none"));
    field("labels", &labels, "classify: the classes in the order of their ids, with commas between them",
          anything().or_unset("the model's if they fit, or the sorted labels of the data"));
    field("class_weights", &class_weights,
          "classify: what classes weigh in the loss: balanced, or name:weight for each with commas between them",
          anything().or_unset("all the same"));
    field("truncation", &truncation, "classify, regress: which text of a pair is cut at model.context tokens",
          one_of({"longest_first", "only_first", "only_second"}));
    field("order", &order,
          "classify, regress: the order of an epoch: shuffled, batches of similar lengths, or as in the file",
          one_of({"shuffled", "grouped", "sequential"}));
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

  // Settings that were checked name a task that there is.
  TaskKind kind() const { return find_task_kind(task).value_or(TaskKind::text); }
};

// Other wordings of training examples. Rates are shares of words or tokens.
struct AugmentConfig {
  double synonyms = 0, swap = 0, deletion = 0, span_mask = 0, token_dropout = 0;
  std::string synonyms_file;

  bool on() const { return synonyms > 0 || swap > 0 || deletion > 0 || span_mask > 0 || token_dropout > 0; }

  void visit(FieldList& field) {
    const auto rate = [] { return between(0, 1).or_unset("off"); };
    field("synonyms", &synonyms, "words of the synonyms_file that are replaced", rate());
    field("swap", &swap, "words that change places with others", rate());
    field("deletion", &deletion, "words that are left out", rate());
    field("span_mask", &span_mask, "tokens that become the mask token, in runs", rate());
    field("token_dropout", &token_dropout, "tokens that become the unknown token", rate());
    field("synonyms_file", &synonyms_file, "lines of a word, a tab, and its synonyms with commas between them",
          anything().or_unset("none"));
  }
};

}  // namespace gradmill
