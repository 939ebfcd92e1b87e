// SPDX-License-Identifier: Apache-2.0
// The tokenizers as a program, for bench/tokenizer_speed.py and tools/compare_tokenizers.py, which say how to run it.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/encode_batch.h"
#include "tokenizer/load_tokenizer.h"

namespace {

using namespace gradmill;
using Clock = std::chrono::steady_clock;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw data_error(fmt::format("cannot read '{}'", path), "check the path");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lines keep their line break.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Each line of the file is a JSON string; prints {"ids": .., "text": what they decode to} for each.
int print_ids(const std::string& tokenizer_path, const std::string& texts_path, bool parse_special) {
  const auto tokenizer = load_tokenizer(tokenizer_path);
  const std::string texts = read_file(texts_path);
  for (const std::string_view line : lines_of(texts)) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    const auto ids = tokenizer->encode(text, {.parse_special = parse_special}).ids;
    const nlohmann::json result = {{"ids", ids}, {"text", tokenizer->decode(ids, {.replace_invalid = true})}};
    fmt::print("{}\n", result.dump());
  }
  return 0;
}

// Prints the seconds of each round, and the tokens of one.
int time_encode(const std::string& tokenizer_path, const std::string& text_path, int num_threads, int num_rounds) {
  const auto tokenizer = load_tokenizer(tokenizer_path);
  const std::string text = read_file(text_path);
  const auto lines = lines_of(text);
  for (int round = 0; round < num_rounds; ++round) {
    const auto start = Clock::now();
    const auto encodings = encode_batch(*tokenizer, lines, num_threads);
    const double seconds = seconds_since(start);
    size_t num_tokens = 0;
    for (const Encoding& encoding : encodings) num_tokens += encoding.ids.size();
    fmt::print("{} {}\n", seconds, num_tokens);
  }
  return 0;
}

// Prints the seconds of reading and learning; writes the tokenizer.json.
int time_train(const std::string& text_path, int64_t vocab_size, int num_threads, const std::string& out_path) {
  const auto start = Clock::now();
  const std::string text = read_file(text_path);
  BpeTrainer trainer({.vocab_size = vocab_size, .special_tokens = {"<|endoftext|>"}});
  trainer.feed(lines_of(text), num_threads);
  const TrainedBpe learned = trainer.train();
  fmt::print("{} {}\n", seconds_since(start), learned.tokens.size());
  std::ofstream(out_path, std::ios::binary) << learned.to_json();
  return 0;
}

int run(const std::vector<std::string>& args) {
  if (args.size() == 4 && args[0] == "ids") return print_ids(args[1], args[2], args[3] == "special");
  if (args.size() == 5 && args[0] == "encode") {
    return time_encode(args[1], args[2], std::stoi(args[3]), std::stoi(args[4]));
  }
  if (args.size() == 5 && args[0] == "train") {
    return time_train(args[1], std::stoll(args[2]), std::stoi(args[3]), args[4]);
  }
  fmt::print(stderr,
             "tokenizer_bench ids TOKENIZER TEXTS special|plain\n"
             "tokenizer_bench encode TOKENIZER TEXT THREADS ROUNDS\n"
             "tokenizer_bench train TEXT VOCAB_SIZE THREADS OUT\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
