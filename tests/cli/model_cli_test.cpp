// SPDX-License-Identifier: Apache-2.0
// Models from files on the command line: import, export, and one-line errors for unusable files.
#include "checkpoint/safetensors.h"
#include "cli/cli_fixture.h"
#include "model_files/folder_files.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

// Sixteen words; the tiny models have forty rows.
std::string tokenizer_of_words() {
  std::string vocab = R"("[UNK]": 0)";
  for (int i = 1; i < 16; ++i) vocab += fmt::format(R"(, "w{}": {})", i, i);
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {)" +
         vocab + "}}}";
}

class ModelCliTest : public CliTest {
 protected:
  ModelCliTest() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("w{} ", 1 + i * i % 15);
    file("text.txt", text);
  }
  fs::path model_folder(const char* config, const std::vector<FileTensor>& tensors) const {
    const fs::path folder = folder_ / "model";
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    std::ofstream(folder / "tokenizer.json") << tokenizer_of_words();
    std::ofstream(folder / "model.safetensors", std::ios::binary) << safetensors_of(tensors);
    return folder;
  }
  // One step with a learning rate of 0.
  std::string still_step(const std::string& more = "") const {
    return fmt::format(
        "train model.path='{0}/model' data.path='{0}/text.txt' model.context=16 training.steps=1 training.batch_size=2 "
        "optimizer.lr=0 optimizer.min_lr=0 eval.every_steps=0 machine.device=cpu checkpoint.dir='{0}/run' {1}",
        folder_.string(), more);
  }
};

TEST_F(ModelCliTest, AStepThatMovesNothingGivesTheWeightsBackBitForBit) {
  for (const bool llama : {true, false}) {
    const fs::path from =
        model_folder(llama ? kTinyLlama : kTinyGpt2, llama ? tiny_llama("BF16") : tiny_gpt2("BF16", "transformer."));
    for (const char* adapter : {"", "adapter.kind=lora adapter.rank=2"}) {
      const Outcome trained = gradmill(still_step(adapter));
      ASSERT_EQ(trained.code, 0) << trained.output;
      const fs::path to = folder_ / "out";
      const Outcome written =
          gradmill("export '" + (folder_ / "run").string() + "' --to '" + to.string() + "' --dtype bf16");
      ASSERT_EQ(written.code, 0) << written.output;
      const SafeTensors before(from / "model.safetensors"), after(to / "model.safetensors");
      ASSERT_EQ(after.names(), before.names());
      for (size_t i = 0; i < before.names().size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(after.stored(i).bytes, before.stored(i).bytes)) << before.names()[i];
      }
      fs::remove_all(to);
      fs::remove_all(folder_ / "run");
    }
    fs::remove_all(from);
  }
}

// The sample at the end contains only words, although the model has more rows.
TEST_F(ModelCliTest, ATokenizerMayBeSmallerThanTheModel) {
  model_folder(kTinyLlama, tiny_llama("F32"));
  const Outcome trained = gradmill(still_step("sample.tokens=50"));
  EXPECT_EQ(trained.code, 0) << trained.output;
  const Outcome text =
      gradmill("generate '" + (folder_ / "model").string() + "' --prompt w1 --tokens 50 --temperature 2");
  EXPECT_EQ(text.code, 0) << text.output;
}

TEST_F(ModelCliTest, PredictsIntoAFileOfTheCurrentFolder) {
  model_folder(kTinyLlama, tiny_llama("F32"));
  std::string table = "text\tlabel\n";
  for (int i = 0; i < 12; ++i) table += fmt::format("w{} w{}\t{}\n", 1 + i, 15 - i, i % 2 == 0 ? "even" : "odd");
  const std::string data = file("labels.tsv", table);
  const Outcome trained = gradmill(
      fmt::format("train task=classify model.path='{0}/model' data.path={1} model.context=16 training.epochs=1 "
                  "training.batch_size=4 machine.device=cpu checkpoint.dir='{0}/run'",
                  folder_.string(), data));
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Outcome answers = gradmill(fmt::format("predict '{}/run' --in {} --out answers.jsonl", folder_.string(), data));
  EXPECT_EQ(answers.code, 0) << answers.output;
  std::ifstream lines(folder_ / "work" / "answers.jsonl");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(lines), {}, '\n'), 12);
}

// Refused before the data is tokenised, with a single line of output.
TEST_F(ModelCliTest, WhatCannotBeUsedIsRefusedAtOnce) {
  const fs::path folder = model_folder(kTinyLlama, tiny_llama("F32"));
  expect_error(still_step("data.tokenizer=byte"), 4, "the model has rows for 40");
  const fs::path weights = folder / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1);
  expect_error(still_step(), 4, "download or export the file again");
  std::vector<FileTensor> tensors = tiny_llama("F32");
  tensors.pop_back();
  model_folder(kTinyLlama, tensors);
  expect_error(still_step(), 4, "mlp.down_proj.weight");
  fs::rename(weights, folder / "pytorch_model.bin");
  expect_error(still_step(), 4, "a pickle file");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace gradmill::test
