// SPDX-License-Identifier: Apache-2.0
// Small runs on tokens: documents, a BPE learned from them, and a Llama-style model.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "data/tokens/train_tokenizer.h"
#include "support/errors.h"
#include "files/file_io.h"
#include "train/trainer_fixture.h"

namespace gradmill::test {

class TokenRunTest : public TrainerTest {
 protected:
  static constexpr int64_t kVocab = 280;

  TokenRunTest() {
    folder_.write("data/train.jsonl", documents(300, 0));
    folder_.write("validation.jsonl", documents(40, 7));
    const std::vector<std::string> sources = {(folder_.path() / "data").string()};
    train_tokenizer(list_sources(sources), tokenizer(), {.bpe = {.vocab_size = kVocab, .special_tokens = {"<eos>"}}});
    config_.data.dataset = "self";
    config_.data.path = sources.front();
    config_.data.tokenizer = tokenizer().string();
    config_.data.cache = (folder_.path() / "cache").string();
    config_.model.style = "llama";
    config_.model.kv_heads = 1;
    config_.model.dropout = 0;
    config_.model.context = 32;
    config_.training.steps = 40;
  }

  // Sentences of different lengths, one per document.
  static std::string documents(int64_t count, int64_t seed) {
    const std::vector<std::string> words = {"the", "miller", "grinds", "corn", "while", "water", "turns", "mill"};
    std::string lines;
    for (int64_t i = 0; i < count; ++i) {
      std::string text;
      for (int64_t word = 0; word < 3 + (i * 5 + seed) % 12; ++word) {
        text += words[static_cast<size_t>(word + i % 3) % words.size()] + " ";
      }
      lines += "{\"text\": \"" + text + ".\"}\n";
    }
    return lines;
  }

  static std::vector<std::string> texts_of(const std::string& lines) {
    std::vector<std::string> texts;
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) texts.push_back(nlohmann::json::parse(line)["text"]);
    return texts;
  }

  void stream() {
    config_.data.streaming = true;
    config_.data.validation_path = (folder_.path() / "validation.jsonl").string();
  }

  std::filesystem::path tokenizer() const { return folder_.path() / "tokenizer"; }
  std::filesystem::path newest(const std::string& run) const {
    const CheckpointStore store(folder_.path() / run);
    return store.path(store.steps().back());
  }
};

}  // namespace gradmill::test
