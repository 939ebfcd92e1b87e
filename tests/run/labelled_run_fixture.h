// SPDX-License-Identifier: Apache-2.0
// Small runs on labelled data: sentences with a class or number that a tiny model learns in seconds.
#pragma once

#include <string>
#include <vector>

#include "config/render.h"
#include "data/tokens/train_tokenizer.h"
#include "data/records/source_list.h"
#include "train/trainer_fixture.h"

namespace gradmill::test {

class LabelledRunTest : public TrainerTest {
 protected:
  LabelledRunTest() {
    folder_.write("train.jsonl", classes(240, 0));
    folder_.write("validation.jsonl", classes(60, 1));
    folder_.write("numbers.jsonl", numbers(240));
    const std::vector<std::string> sources = {path("corpus.jsonl")};
    folder_.write("corpus.jsonl", corpus());
    train_tokenizer(list_sources(sources), folder_.path() / "tokenizer",
                    {.bpe = {.vocab_size = 300, .special_tokens = {"<eos>"}}});
    config_.data.dataset = "self";
    config_.data.task = "classify";
    config_.data.path = path("train.jsonl");
    config_.data.validation_path = path("validation.jsonl");
    config_.data.tokenizer = path("tokenizer");
    config_.model.style = "bert";
    config_.model.context = 32;
    config_.model.dropout = 0.1;
    config_.training.steps = 0;
    config_.training.epochs = 4;
    config_.training.batch_size = 16;
    config_.optimizer.lr = 3e-3;
    config_.optimizer.min_lr = 0;
    config_.schedule.warmup_steps = 6;
    config_.eval.every_steps = 0;
    config_.eval.every_epochs = 1;
    config_.eval.tokens = EvalConfig().tokens;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  static std::string sentence(int64_t i, int64_t seed) {
    static const std::vector<std::string> words = {"the",   "miller", "grinds", "corn",
                                                   "while", "water",  "turns",  "mill"};
    std::string text;
    for (int64_t word = 0; word < 3 + (i * 7 + seed) % 9; ++word) {
      text += words[static_cast<size_t>((i * i + word * (1 + seed) + seed) % 8)] + " ";
    }
    return text;
  }
  // The text about the mill decides the class: it runs, it stands, or it burns.
  static std::string classes(int64_t count, int64_t seed) {
    static const std::vector<std::string> ends = {"it runs", "it stands", "it burns"};
    static const std::vector<std::string> labels = {"running", "standing", "burning"};
    std::string lines;
    for (int64_t i = 0; i < count; ++i) {
      const auto kind = static_cast<size_t>((i + i / 7) % 3);
      lines += fmt::format("{{\"text\": \"{}{}\", \"label\": \"{}\"}}\n", sentence(i, seed), ends[kind], labels[kind]);
    }
    return lines;
  }
  // The number of times that a pair's second text contains "corn".
  static std::string numbers(int64_t count) {
    std::string lines;
    for (int64_t i = 0; i < count; ++i) {
      std::string second = "corn";
      for (int64_t k = 0; k < i % 4; ++k) second += " corn";
      lines += fmt::format("{{\"text_a\": \"{}\", \"text_b\": \"{}\", \"score\": {:.2f}}}\n", sentence(i, 2), second,
                           0.25 * double(i % 4 + 1));
    }
    return lines;
  }
  static std::string corpus() {
    std::string lines;
    for (int64_t i = 0; i < 100; ++i) {
      lines += fmt::format("{{\"text\": \"{} it runs it stands it burns corn\"}}\n", sentence(i, i % 3));
    }
    return lines;
  }

  // Replaces the settings in a run's folder for code that loads them.
  void replace_config(const std::string& run) {
    LoadedConfig loaded{.config = config_, .origins = {}};
    folder_.write(run + "/config.yaml", effective_yaml(loaded, false));
  }
  static void expect_near_logits(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
  }

  static double value(const EvalMetrics& metrics, const std::string& name) {
    for (const auto& [known, number] : metrics.values) {
      if (known == name) return number;
    }
    return kUnknown;
  }
};

}  // namespace gradmill::test
