// SPDX-License-Identifier: Apache-2.0
// How fast data becomes batches, on one core: token shards to packed batches, and JSONL + zstd text through a
// byte-level BPE to packed batches.
//
//   cmake --build build --target data_speed
//   taskset -c 0 build/bench/data_speed [TEXT_FILE [TOKENIZER]]
//
// Without a text, the repository's own sources are used; without a tokenizer, one of 8192 tokens is learned from the
// text. Files go to a temporary folder. Every figure is the best of five runs.
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "data/tokens/corpus_tokenizer.h"
#include "data/tokens/token_stream.h"
#include "data/tokens/tokenize.h"
#include "data/tokens/train_tokenizer.h"
#include "files/file_io.h"
#include "data/characters/self_text.h"

using namespace gradmill;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kContext = 1024, kBatch = 64;
constexpr size_t kTextBytes = size_t{48} << 20;

std::string json_string(std::string_view text) {
  std::string escaped = "\"";
  for (char character : text) {
    if (character == '"' || character == '\\') {
      escaped += fmt::format("\\{}", character);
    } else if (static_cast<unsigned char>(character) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<int>(character));
    } else {
      escaped += character;
    }
  }
  return escaped + "\"";
}

// Documents of 0.2 to 6 KB, cut at line ends, over and over until there are enough.
std::string as_jsonl(std::string_view text) {
  std::string lines;
  size_t at = 0;
  for (size_t i = 0; lines.size() < kTextBytes; ++i) {
    const size_t end = text.find('\n', std::min(at + 200 + i * 7919 % 5800, text.size()));
    lines += fmt::format("{{\"id\": {}, \"text\": {}}}\n", i, json_string(text.substr(at, end - at)));
    at = end == std::string_view::npos || end + 1 >= text.size() ? 0 : end + 1;
  }
  return lines;
}

void write_zstd(const fs::path& path, const std::string& bytes) {
  std::string compressed(ZSTD_compressBound(bytes.size()), 0);
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), bytes.data(), bytes.size(), 3));
  std::ofstream(path, std::ios::binary) << compressed;
}

void report(const char* what, const std::function<int64_t()>& run) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    const int64_t tokens = run();
    best = std::max(best, static_cast<double>(tokens) / watch.seconds());
  }
  fmt::print("{:<44} {:>9.3f} million tokens/s\n", what, best / 1e6);
}

int64_t drain(auto& loader, int64_t num_tokens) {
  int64_t tokens = 0;
  while (tokens < num_tokens) {
    for (const MicroBatch& micro : loader.next().micro) tokens += micro.cu_seqlens.back();
  }
  return tokens;
}

int run(int argc, char** argv) {
  std::string pattern = (fs::temp_directory_path() / "data_speed_XXXXXX").string();
  const fs::path work = ::mkdtemp(pattern.data());
  const std::string text = argc > 1 ? read_bytes(argv[1], kWholeFile) : std::string(self_text());
  write_zstd(work / "data.jsonl.zst", as_jsonl(text));
  const std::vector<SourceFile> files = list_sources(std::vector<std::string>{(work / "data.jsonl.zst").string()});
  if (argc <= 2) {
    train_tokenizer(files, work / "tokenizer",
                    {.bpe = {.vocab_size = 8192, .special_tokens = {"<|endoftext|>"}}, .max_bytes = 8 << 20});
  }
  const CorpusTokenizer tokenizer = open_corpus_tokenizer(argc > 2 ? fs::path(argv[2]) : work / "tokenizer");
  const RecordEncoding encoding = tokenizer.text("text", "auto");
  const TokenizeReport written = tokenize_corpus(files, encoding, work / "tokens", {});
  const int64_t num_tokens = written.manifest.num_tokens();
  fmt::print("{} documents, {} tokens, {:.2f} bytes of text a token\n", written.manifest.num_documents(), num_tokens,
             static_cast<double>(written.progress.text_bytes) / static_cast<double>(num_tokens));

  const ShardSet shards(list_token_shards(work / "tokens"));
  for (PackMode mode : {PackMode::documents, PackMode::concatenated}) {
    const PackPlan plan(shards, {.mode = mode, .context = kContext});
    report(mode == PackMode::documents ? "shards to batches, documents packed" : "shards to batches, concatenated",
           [&] {
             PackedLoader loader(plan, {.batch_size = kBatch});
             return drain(loader, 4 * num_tokens);
           });
  }
  for (PackMode mode : {PackMode::documents, PackMode::concatenated}) {
    report(mode == PackMode::documents ? "JSONL + zstd to batches, documents packed"
                                       : "JSONL + zstd to batches, concatenated",
           [&] {
             TokenStreamOptions options;
             options.pack = {.mode = mode, .context = kContext};
             options.loader.batch_size = kBatch;
             TokenStream stream(files, encoding, options);
             return drain(stream, num_tokens);
           });
  }
  report("JSONL + zstd to shards", [&] {
    fs::remove_all(work / "again");
    return tokenize_corpus(files, encoding, work / "again", {}).progress.tokens;
  });
  fs::remove_all(work);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& error) {
  fmt::print(stderr, "data_speed: {}\n", error.what());
  return 1;
}
