// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_fixture.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

TEST_F(CliTest, VersionAndHelp) {
  EXPECT_EQ(gradmill("version").code, 0);
  const Outcome help = gradmill("train --help");
  EXPECT_EQ(help.code, 0);
  for (const char* part : {"--resume", "--dry-run", "data.dataset", "training.steps", "machine.save_policy"}) {
    EXPECT_NE(help.output.find(part), std::string::npos) << part;
  }
}

TEST_F(CliTest, UsageMistakes) {
  expect_error("", 2, "--help");
  expect_error("trian", 2, "--help");
  expect_error("train --no-such-flag 3", 2, "--help");
  expect_error("train training.steps=many", 2, "training.steps");
  expect_error("train model.context=-1", 2, "model.context");
  expect_error("train model.context=0", 2, "model.context");
  expect_error("train training.batch_size=0", 2, "training.batch_size");
  expect_error("train model.width=-8", 2, "model.width");
  expect_error("train training.batchsize=8", 2, "did you mean");
  expect_error("train data.max_chars=-1", 2, "data.max_chars");
  expect_error("train --tokenizer byte", 2, "data.path");
  expect_error("train --data x.jsonl", 2, "data.tokenizer");
  expect_error("plan --device rtx9999", 2, "rtx5090");
  expect_error("bench step --case giant", 2, "nano, char");
}

TEST_F(CliTest, FiveMistakesAreFiveLines) {
  const std::string config =
      file("five.yaml",
           "training:\n  stesp: 10\n  batch_size: -2\nmodel:\n  layers: two\nmodle:\n  width: 8\n"
           "schedule:\n  name: cosinus\n");
  const Outcome outcome = gradmill("train --config " + config);
  EXPECT_EQ(outcome.code, 2);
  for (const char* part : {"five.yaml:2", "five.yaml:3", "five.yaml:5", "five.yaml:6", "five.yaml:9", "did you mean"}) {
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "work"));
}

TEST_F(CliTest, DataMistakes) {
  expect_error("train --dataset " + file("empty.txt", ""), 4, "empty");
  expect_error("train --dataset " + file("short.txt", "too short"), 4, "characters");
  expect_error("train --dataset " + file("binary.txt", "fine so far \xff\xfe not fine"), 4, "UTF-8");
  expect_error("train --dataset '" + (folder_ / "missing.txt").string() + "'", 4, "missing.txt");
  expect_error("train --dataset '" + folder_.string() + "'", 4, "folder");
  expect_error("train --dataset shakespeare", 4, "--download");
  expect_error("train --tokenizer byte --data missing.jsonl", 4, "missing.jsonl");
  expect_error("train --tokenizer nowhere --data " + file("a.jsonl", "{}"), 4, "nowhere");
  expect_error("train --tokenizer byte --data " + file("b.parquet", "PAR1"), 4, "parquet");
}

constexpr const char* kTinyTokens =
    "model.layers=2 model.width=32 model.context=32 training.steps=12 eval.every_steps=5 logging.every_steps=2 "
    "checkpoint.every_steps=3 sample.tokens=20 machine.device=cpu ";
constexpr const char* kTinyRun =
    "data.max_chars=20000 model.layers=2 model.width=32 model.context=32 training.steps=12 eval.every_steps=5 "
    "logging.every_steps=2 checkpoint.every_steps=3 sample.tokens=20 ";

TEST_F(CliTest, ARunFromTrainingToText) {
  const Outcome run = gradmill(std::string("train checkpoint.dir=run ") + kTinyRun);
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* part : {"flash attention", "inactive", "sample:"}) {
    EXPECT_NE(run.output.find(part), std::string::npos) << part << "\n" << run.output;
  }
  for (const char* name :
       {"config.yaml", "run.json", "metrics.jsonl", "metrics.csv", "trainer_state.json", "checkpoints"}) {
    EXPECT_TRUE(fs::exists(folder_ / "work/run" / name)) << name;
  }
  const Outcome eval = gradmill("eval run");
  EXPECT_EQ(eval.code, 0) << eval.output;
  for (const char* part : {"\"perplexity\"", "\"bits_per_byte\"", "\"bits_per_char\""}) {
    EXPECT_NE(eval.output.find(part), std::string::npos) << eval.output;
  }
  const Outcome first = gradmill("generate run --prompt 'the' --tokens 30 --seed 4");
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_GE(first.output.size(), 30u);
  EXPECT_EQ(gradmill("generate run --prompt 'the' --tokens 30 --seed 4").output, first.output);
  EXPECT_EQ(gradmill(std::string("train checkpoint.dir=other training.seed=2 ") + kTinyRun).code, 0);
  const Outcome compare = gradmill("compare run other");
  EXPECT_EQ(compare.code, 0) << compare.output;
  EXPECT_NE(compare.output.find("training.seed"), std::string::npos) << compare.output;
}

TEST_F(CliTest, AShortRunsLastStepIsInItsFiles) {
  const Outcome run = gradmill(std::string("train checkpoint.dir=run ") + kTinyRun +
                               "training.steps=7 logging.every_steps=50 eval.every_steps=0");
  EXPECT_EQ(run.code, 0) << run.output;
  std::ifstream file(folder_ / "work/run/metrics.jsonl");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("grad_norm"), std::string::npos) << text;
}

TEST_F(CliTest, ResumeSaysWhatChanged) {
  EXPECT_EQ(gradmill(std::string("train checkpoint.dir=run ") + kTinyRun).code, 0);
  const Outcome again = gradmill(std::string("train checkpoint.dir=run ") + kTinyRun);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.output.find("--resume auto"), std::string::npos) << again.output;
  const Outcome more = gradmill("train --resume run training.steps=20 training.batch_size=6");
  EXPECT_EQ(more.code, 0) << more.output;
  for (const char* part :
       {"resumed from step 12", "training.steps was 12, now 20", "training.batch_size was 12, now 6"}) {
    EXPECT_NE(more.output.find(part), std::string::npos) << part << "\n" << more.output;
  }
  EXPECT_EQ(gradmill("train --resume nowhere").code, 4);
}

TEST_F(CliTest, ARunOnTokensFromTextToText) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\": \"the mill turns \u00fc, the miller sings\"}\n";
  const std::string data = file("corpus.jsonl", lines);
  ASSERT_EQ(gradmill("tokenizer train " + data + " --vocab-size 270 --out tokenizer").code, 0);
  const std::string settings = "--data " + data + " --tokenizer tokenizer model.style=llama " + kTinyTokens;
  const Outcome dry = gradmill("train --dry-run " + settings);
  EXPECT_EQ(dry.code, 0) << dry.output;
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
  const Outcome plan = gradmill("plan data.path=" + data + " data.tokenizer=tokenizer");
  EXPECT_EQ(plan.code, 0) << plan.output;
  const Outcome run = gradmill("train checkpoint.dir=run " + settings);
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* part : {"tokenised", "documents, vocabulary 270", "% full", "sample:"}) {
    EXPECT_NE(run.output.find(part), std::string::npos) << part << "\n" << run.output;
  }
  EXPECT_TRUE(fs::exists(folder_ / "work/run/checkpoints/step-00000012/tokenizer.json"));
  fs::rename(folder_ / "work/tokenizer", folder_ / "gone");
  const Outcome eval = gradmill("eval run");
  EXPECT_EQ(eval.code, 0) << eval.output;
  for (const char* part : {"\"perplexity\"", "\"bits_per_byte\"", "\"bits_per_token\""}) {
    EXPECT_NE(eval.output.find(part), std::string::npos) << eval.output;
  }
  EXPECT_EQ(gradmill("eval run --dataset " + data).code, 0);
  const Outcome text = gradmill("generate run --prompt 'the mill' --tokens 30 --seed 4");
  EXPECT_EQ(text.code, 0) << text.output;
  for (const char* arguments :
       {"run --to out", "run --to out.gguf --format gguf --dtype q8_0", "out.gguf --to again"}) {
    const Outcome exported = gradmill(std::string("export ") + arguments);
    EXPECT_EQ(exported.code, 0) << exported.output;
  }
  EXPECT_EQ(gradmill("export run --to out").code, 2) << "it exists";
  EXPECT_EQ(gradmill("tokenizer encode out < " + data).output, gradmill("tokenizer encode again < " + data).output);
  const Outcome more = gradmill("train --resume run training.steps=15");
  EXPECT_EQ(more.code, 0) << more.output;
  EXPECT_NE(more.output.find("resumed from step 12"), std::string::npos) << more.output;
}

TEST_F(CliTest, ALabelledRunsScoresAreInItsTable) {
  std::string lines;
  for (int i = 0; i < 120; ++i) {
    lines += std::string("{\"text\": \"the mill ") + (i % 3 ? "turns" : "stands") + "\", \"label\": \"" +
             (i % 3 ? "on" : "off") + "\"}\n";
  }
  const std::string data = file("labelled.jsonl", lines);
  ASSERT_EQ(gradmill("tokenizer train " + data + " --vocab-size 270 --out tokenizer").code, 0);
  const Outcome run = gradmill("train checkpoint.dir=run task=classify model.style=bert --tokenizer tokenizer --data " +
                               data + " " + kTinyTokens + "training.batch_size=8 training.epochs=0");
  EXPECT_EQ(run.code, 0) << run.output;
  const Outcome more = gradmill("train --resume run training.steps=15");
  EXPECT_EQ(more.code, 0) << more.output;
  std::ifstream table(folder_ / "work/run/metrics.csv");
  std::string header, row, last;  // including scores
  ASSERT_TRUE(std::getline(table, header));
  EXPECT_NE(header.find(",eval_accuracy,eval_f1,"), std::string::npos) << header;
  while (std::getline(table, row)) {
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), std::count(header.begin(), header.end(), ',')) << row;
    if (!row.ends_with(",,,,,,")) last = row;
  }
  EXPECT_TRUE(last.starts_with("15,")) << last;  // the evaluation at the end
  const Outcome eval = gradmill("eval run --json");
  EXPECT_EQ(eval.code, 0) << eval.output;
  EXPECT_NE(eval.output.find("\"accuracy\""), std::string::npos) << eval.output;
}

TEST_F(CliTest, ExportMistakes) {
  expect_error("export", 2, "from is required");
  expect_error("export x --to y --format onnx", 2, "onnx");
  expect_error("export no-such-folder --to y", 4, "no-such-folder");
  expect_error("export " + file("x.gguf", "GGUX") + " --to y", 4, "not a GGUF file");
}

TEST_F(CliTest, InspectShowsWhatAModelWouldSee) {
  const std::string pairs = file(
      "pairs.tsv", "index\tsentence1\tsentence2\tlabel\n0\tIt rains.\tIt is wet.\tyes\n1\tIt rains.\tIt is dry.\tno\n");
  const Outcome labels = gradmill("data inspect " + pairs);
  EXPECT_EQ(labels.code, 0) << labels.output;
  for (const char* part : {"2 pairs", "'no'", "'yes'", "50.0%", "yes: It rains. | It is wet."}) {
    EXPECT_NE(labels.output.find(part), std::string::npos) << part << "\n" << labels.output;
  }
  const std::string text = file("corpus.txt", "two and two are four, two and three are five\n");
  ASSERT_EQ(gradmill("tokenizer train " + text + " --vocab-size 262 --out tokenizer").code, 0);
  const std::string prompts = file("prompts.jsonl", R"({"prompt": "2+2=", "completion": "4"})");
  const Outcome masked = gradmill("data inspect " + prompts + " --tokenizer tokenizer --context 32");
  EXPECT_EQ(masked.code, 0) << masked.output;
  EXPECT_NE(masked.output.find("[2+2=]4"), std::string::npos) << masked.output;
  const std::string tokenize = "data tokenize " + prompts + " --task instruct --tokenizer tokenizer --out shards";
  const Outcome uncut = gradmill(tokenize);
  EXPECT_EQ(uncut.code, 2) << uncut.output;
  EXPECT_NE(uncut.output.find("--context"), std::string::npos) << uncut.output;
  EXPECT_EQ(gradmill(tokenize + " --context 32").code, 0);
  const Outcome shards = gradmill("data inspect shards --tokenizer tokenizer");
  EXPECT_NE(shards.output.find("% of the tokens are learned"), std::string::npos) << shards.output;
  const Outcome missing = gradmill("data inspect " + prompts);
  EXPECT_EQ(missing.code, 2) << missing.output;
  EXPECT_NE(missing.output.find("--tokenizer"), std::string::npos) << missing.output;
}

TEST_F(CliTest, DryRunAndConfigShowWriteNothing) {
  const Outcome dry = gradmill("train --dry-run model.layers=2");
  EXPECT_EQ(dry.code, 0) << dry.output;
  EXPECT_NE(dry.output.find("persistent"), std::string::npos);
  const Outcome show = gradmill("config show --origin experiment=shakespeare_cpu training.steps=7");
  EXPECT_EQ(show.code, 0) << show.output;
  EXPECT_NE(show.output.find("command line"), std::string::npos) << show.output;
  EXPECT_TRUE(fs::is_empty(folder_ / "work"));
}

TEST_F(CliTest, APresetChoosesWhatFits) {
  const std::string settings = "--dry-run model.layers=4 model.context=64 training.batch_size=64 machine.device=cpu";
  const Outcome whole = gradmill("train --preset auto " + settings);
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_NE(whole.output.find("nothing was changed"), std::string::npos) << whole.output;
  const Outcome cut = gradmill("train --preset 0.05GB " + settings);
  EXPECT_EQ(cut.code, 0) << cut.output;
  EXPECT_NE(cut.output.find("# preset 0.05GB"), std::string::npos) << cut.output;
  const Outcome none = gradmill("train --preset 0.001GB " + settings);
  EXPECT_EQ(none.code, 3) << none.output;
  EXPECT_EQ(gradmill("train --preset auto --resume nowhere").code, 2);
}

TEST_F(CliTest, CompletionAndManualComeFromTheTables) {
  const Outcome bash = gradmill("completion bash");
  EXPECT_EQ(bash.code, 0);
  for (const char* part : {"train", "--resume", "training.batch_size=", "experiment=shakespeare_cpu"}) {
    EXPECT_NE(bash.output.find(part), std::string::npos) << part;
  }
  const Outcome words = gradmill(
      "completion bash > ../c.sh; bash -c '. ../c.sh; COMP_WORDS=(gradmill train training.st); "
      "COMP_CWORD=2; _gradmill; echo ${COMPREPLY[@]}' 2>/dev/null; true");
  EXPECT_NE(words.output.find("training.steps="), std::string::npos) << words.output;
  const Outcome man = gradmill("man");
  EXPECT_EQ(man.code, 0);
  for (const char* part : {".TH GRADMILL 1", ".SS train", "training.steps", "EXIT STATUS"}) {
    EXPECT_NE(man.output.find(part), std::string::npos) << part;
  }
}

constexpr const char* kTinyModel =
    " machine.device=cpu model.layers=1 model.heads=2 model.width=16 model.context=8 training.batch_size=2 --vocab 11 "
    "--steps 1 ";

TEST_F(CliTest, ALadderOfATinyModel) {
  const Outcome ladder = gradmill(std::string("bench ladder --repeats 2 --out ../ladder") + kTinyModel);
  EXPECT_EQ(ladder.code, 0) << ladder.output;
  for (const char* part : {"| fp32, one thread", "| + save policy cheap", "reference", "vocabulary 11"}) {
    EXPECT_NE(ladder.output.find(part), std::string::npos) << part << "\n" << ladder.output;
  }
  EXPECT_TRUE(fs::exists(folder_ / "ladder/ladder.md"));
  EXPECT_TRUE(fs::exists(folder_ / "ladder/ladder.json"));
  EXPECT_TRUE(fs::is_empty(folder_ / "work"));
  expect_error("bench ladder --repeats 0", 2, "--repeats");
  expect_error("bench ladder --case giant", 2, "nano, char");
}

TEST_F(CliTest, OpsOfATinyModel) {
  const Outcome ops = gradmill(std::string("bench ops") + kTinyModel);
  EXPECT_EQ(ops.code, 0) << ops.output;
  for (const char* part : {"copies", "| matmul 128x64x16 nt", "| attention_backward", "to gain, ms"}) {
    EXPECT_NE(ops.output.find(part), std::string::npos) << part << "\n" << ops.output;
  }
}

TEST_F(CliTest, OpsOnPaperAreLeftToItsProgram) {
  file("on_paper.sh", "#!/bin/sh\necho \"$PAPER_GPU $PAPER_TIME $PAPER_GPU_COMPUTES $*\"\n");
  const fs::path program = folder_ / "on_paper.sh";
  fs::permissions(program, fs::perms::owner_all);
  setenv("GRADMILL_ON_PAPER", program.c_str(), 1);
  const Outcome ops = gradmill("bench ops --on-paper h200 --case 176m --steps 2 model.layers=1");
  EXPECT_EQ(ops.code, 0) << ops.output;
  const char* const words = "h200 model off bench ops --vocab 0 --threads 0 --steps 2 --case 176m model.layers=1";
  EXPECT_NE(ops.output.find(words), std::string::npos) << ops.output;
  setenv("GRADMILL_ON_PAPER", "/nowhere", 1);
  expect_error("bench ops --on-paper h200", 2, "GRADMILL_ON_PAPER");
  unsetenv("GRADMILL_ON_PAPER");
}

TEST_F(CliTest, DoctorWorksAnywhere) {
  const Outcome text = gradmill("doctor");
  EXPECT_EQ(text.code, 0) << text.output;
  for (const char* part : {"CPU", "memory", "disk", "GPU"}) {
    EXPECT_NE(text.output.find(part), std::string::npos) << part << "\n" << text.output;
  }
  const Outcome json = gradmill("doctor --json");
  EXPECT_EQ(json.code, 0) << json.output;
  EXPECT_NE(json.output.find("\"gpus\""), std::string::npos) << json.output;
  EXPECT_TRUE(fs::is_empty(folder_ / "work"));
}

TEST_F(CliTest, PlansForAGpuThatIsNotHere) {
  const Outcome plan = gradmill(
      "plan --device h100 --vocab 32768 machine.dtype=bf16 model.style=qwen3 model.layers=24 "
      "model.width=768 model.heads=12 model.kv_heads=4 model.mlp_width=2048 model.context=2048 "
      "training.batch_size=8");
  EXPECT_EQ(plan.code, 0) << plan.output;
  for (const char* part :
       {"persistent", "train: saved", "layers.*.attention.qkv", "library workspaces", "matmul", "fits"}) {
    EXPECT_NE(plan.output.find(part), std::string::npos) << part << "\n" << plan.output;
  }
}

TEST_F(CliTest, PlansWhatMakesARunFit) {
  const std::string model =
      "plan --vocab 32768 model.style=qwen3 model.layers=24 model.width=768 model.heads=12 model.kv_heads=4 "
      "model.mlp_width=2048 model.context=2048 training.batch_size=8 ";
  const Outcome fits = gradmill(model + "--device h100 --fits 1,5,80");
  EXPECT_EQ(fits.code, 0) << fits.output;
  EXPECT_NE(fits.output.find("that fit H100 SXM 80GB with this much memory"), std::string::npos) << fits.output;
  const std::string lines = fits.output.substr(fits.output.find("\n1 GiB"));
  const size_t small = lines.find("\n5 GiB"), large = lines.find("\n80 GiB");
  ASSERT_TRUE(small != std::string::npos && large != std::string::npos) << fits.output;
  EXPECT_NE(lines.substr(0, small).find("DOES NOT FIT"), std::string::npos) << fits.output;
  EXPECT_NE(lines.substr(small, large - small).find("training.micro_batch_size="), std::string::npos) << fits.output;
  EXPECT_NE(lines.substr(large).find("nothing changed"), std::string::npos) << fits.output;
  // Checks that the text is true.
  const std::string said = lines.substr(small, large - small);
  const Outcome plan = gradmill(model + "--device h100 " + said.substr(said.find("training.")));
  const size_t total = plan.output.find("\ntotal");
  ASSERT_NE(total, std::string::npos) << plan.output;
  EXPECT_LE(std::stod(plan.output.substr(total + 6)), 5 * 1024) << plan.output;
  EXPECT_EQ(gradmill(model + "--fits 0").code, 2);
}

TEST_F(CliTest, ARunThatAnErrorEndsSaysHowToGoOn) {
  const std::string diverging =
      "train machine.device=cpu machine.dtype=fp16 model.layers=1 model.heads=2 model.width=32 model.context=16 "
      "training.steps=200 optimizer.lr=10 optimizer.clip=0 schedule.warmup_steps=0 training.max_rollbacks=0 ";
  const Outcome saved = gradmill(diverging + "checkpoint.every_steps=1");
  EXPECT_EQ(saved.code, 1) << saved.output;
  EXPECT_NE(saved.output.find("with: gradmill train --resume 'runs/"), std::string::npos) << saved.output;
  const Outcome unsaved = gradmill(diverging + "checkpoint.every_steps=0");
  EXPECT_EQ(unsaved.code, 1) << unsaved.output;
  EXPECT_NE(unsaved.output.find("before its first checkpoint: nothing was saved"), std::string::npos) << unsaved.output;
}

}  // namespace
}  // namespace gradmill::test
