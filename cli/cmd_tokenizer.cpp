// SPDX-License-Identifier: Apache-2.0
// gradmill tokenizer: train one, and try one out.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "commands.h"
#include "data/tokens/train_tokenizer.h"
#include "tokenizer/load_tokenizer.h"
#include "train/stop_signal.h"

namespace gradmill::cli {
namespace {

struct TrainArgs {
  std::vector<std::string> sources;
  std::string out;
  TrainTokenizerOptions options;
  bool skip_bad = false;
};

CLI::App* add_train(CLI::App& app, TrainArgs& args) {
  CLI::App* train =
      app.add_subcommand("train", "train a byte-level BPE tokenizer that Hugging Face's libraries can load");
  train->add_option("sources", args.sources, "files, folders or patterns: .jsonl .csv .tsv .txt, also .gz and .zst")
      ->required();
  train->add_option("--out", args.out, "folder to create")->required();
  train->add_option("--vocab-size", args.options.bpe.vocab_size, "tokens in the vocabulary, special tokens included")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  train
      ->add_option("--min-frequency", args.options.bpe.min_frequency, "merge only pairs that occur at least this often")
      ->capture_default_str();
  train
      ->add_option("--special-tokens", args.options.bpe.special_tokens,
                   "special tokens, which get the first ids; the first one ends documents")
      ->capture_default_str();
  train->add_option("--text-column", args.options.column, "column or field that holds the text")->capture_default_str();
  train->add_option("--max-bytes", args.options.max_bytes, "bytes of text to train on (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train->add_flag("--skip-bad", args.skip_bad,
                  "skip and count records that cannot be used instead of stopping at the first");
  return train;
}

int run_train(TrainArgs args) {
  StopSignal::install();
  if (args.skip_bad) args.options.read.bad_records = BadRecordPolicy::skip;
  args.options.progress = [](int64_t, int64_t) { return !StopSignal::requested(); };
  const TrainTokenizerReport report = train_tokenizer(list_sources(args.sources), args.out, args.options);
  if (!report.skipped.empty()) fmt::print(stderr, "{}\n", report.skipped);
  fmt::print("{}: {} tokens from {} merges, learned from {} records, {} bytes\n", args.out, report.vocab_size,
             report.num_merges, report.records, report.text_bytes);
  return 0;
}

std::string from_stdin() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

struct EncodeArgs {
  std::string tokenizer;
  std::optional<std::string> text;
  bool pieces = false;
};

CLI::App* add_encode(CLI::App& app, EncodeArgs& args) {
  CLI::App* encode = app.add_subcommand("encode", "print the token ids of a text");
  encode->add_option("tokenizer", args.tokenizer, "a tokenizer.json, a .model, a vocab.txt, or their folder")
      ->required();
  encode->add_option("text", args.text, "text to encode; default: standard input");
  encode->add_flag("--pieces", args.pieces, "print one line per token: its id and its spelling in the vocabulary");
  return encode;
}

int run_encode(const EncodeArgs& args) {
  const auto tokenizer = load_tokenizer(args.tokenizer);
  const std::vector<TokenId> ids = tokenizer->encode(args.text ? *args.text : from_stdin()).ids;
  if (!args.pieces) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return 0;
  }
  for (TokenId id : ids) fmt::print("{:>7}  {}\n", id, tokenizer->token(id).value_or("?"));
  return 0;
}

struct DecodeArgs {
  std::string tokenizer;
  std::vector<TokenId> ids;
};

void add_decode(CLI::App& app, DecodeArgs& args) {
  CLI::App* decode = app.add_subcommand("decode", "print the text of token ids");
  decode->add_option("tokenizer", args.tokenizer, "a tokenizer.json, a .model, a vocab.txt, or their folder")
      ->required();
  decode->add_option("ids", args.ids, "token ids to decode; default: standard input");
}

int run_decode(DecodeArgs args) {
  if (args.ids.empty()) args.ids.assign(std::istream_iterator<TokenId>(std::cin), {});
  fmt::print("{}\n", load_tokenizer(args.tokenizer)->decode(args.ids));
  return 0;
}

}  // namespace

Run add_tokenizer(CLI::App& app) {
  const auto train_args = std::make_shared<TrainArgs>();
  const auto encode_args = std::make_shared<EncodeArgs>();
  const auto decode_args = std::make_shared<DecodeArgs>();
  app.require_subcommand(1);
  const CLI::App* train = add_train(app, *train_args);
  const CLI::App* encode = add_encode(app, *encode_args);
  add_decode(app, *decode_args);
  return [=] {
    if (train->parsed()) return run_train(*train_args);
    return encode->parsed() ? run_encode(*encode_args) : run_decode(*decode_args);
  };
}

}  // namespace gradmill::cli
