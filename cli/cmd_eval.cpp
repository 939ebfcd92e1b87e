// SPDX-License-Identifier: Apache-2.0
// gradmill eval and gradmill generate.
#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "files/file_io.h"
#include "metrics/scores/text_metrics.h"
#include "run/chat_prompt.h"
#include "session/generator.h"
#include "run/loaded_run.h"
#include "report/predictions.h"
#include "train/stop_signal.h"
#include "session/text_stream.h"

namespace gradmill::cli {
namespace {

constexpr int64_t kMostMessages = int64_t{1} << 26;

int eval_labelled(LoadedRun& loaded, const std::string& dataset, bool as_json) {
  TaskAnswers answers;
  if (dataset.empty()) {
    answers = loaded.answer_validation();
  } else {
    answers = loaded.answer_set(read_for_evaluation(dataset, loaded.config(), loaded.task()));
  }
  const TaskScores scores = score(answers, loaded.task(), {}, loaded.threshold());
  if (!as_json) fmt::print("{}\n", describe_scores(scores, loaded.task()));
  fmt::print("{}", scores_json(scores, loaded.step(), static_cast<int64_t>(answers.size())));
  return 0;
}

// There are no bits per byte if the targets have no text, for example only ends of documents.
void print_language(const Evaluation& result, const LoadedRun& loaded) {
  const double by_byte = bits_per_byte(result.loss_sum, result.bytes);
  fmt::print(
      "{{\"step\": {}, \"loss\": {:.6f}, \"perplexity\": {:.4f}, \"bits_per_byte\": {}, \"{}\": {:.4f}, "
      "\"tokens\": {}, \"bytes\": {}}}\n",
      loaded.step(), result.loss(), perplexity(result.loss()),
      std::isfinite(by_byte) ? fmt::format("{:.4f}", by_byte) : "null",
      loaded.tokenizer().is_chars() ? "bits_per_char" : "bits_per_token", result.loss() / std::log(2.0), result.tokens,
      result.bytes);
}

}  // namespace

Run add_eval(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  const auto dataset = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false), allow_older = std::make_shared<bool>(false);
  app.add_option("run", *run, "a run folder, a checkpoint, or a Hugging Face folder")->required();
  app.add_option("--dataset,--data", *dataset, "evaluate on all of this data instead of the validation data");
  app.add_flag("--json", *as_json, "for labelled data: print one line of JSON without the tables");
  add_allow_older(app, *allow_older);
  return [=] {
    LoadedRun loaded(*run, *allow_older ? IfDamaged::use_older : IfDamaged::refuse);
    if (!loaded.task().predicts_tokens()) return eval_labelled(loaded, *dataset, *as_json);
    const Evaluation result = dataset->empty() ? loaded.evaluate_validation() : loaded.evaluate_text(*dataset);
    print_language(result, loaded);
    return 0;
  };
}

Run add_generate(CLI::App& app) {
  struct Options {
    std::string run, prompt = "\n", system, messages;
    bool chat = false, allow_older = false;
    GenerateOptions generate{.max_tokens = 500, .sampler = {.temperature = 0.8}};
  };
  const auto options = std::make_shared<Options>();
  app.add_option("run", options->run, "a run folder, a checkpoint, a Hugging Face folder or a .gguf file")->required();
  app.add_option("--prompt", options->prompt, "text to continue, or the user's message with --chat");
  app.add_flag("--chat", options->chat, "answer the prompt as a chat message, using the tokenizer's chat template");
  app.add_option("--system", options->system, "with --chat: the system message");
  app.add_option("--messages", options->messages,
                 "a JSON file with a conversation to answer: [{\"role\": \"user\", \"content\": \"...\"}]");
  app.add_option("--tokens", options->generate.max_tokens, "most tokens to generate")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  SamplerOptions& sampler = options->generate.sampler;
  app.add_option("--temperature", sampler.temperature, "sampling temperature (0: always take the likeliest token)")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", sampler.top_k, "sample from this many of the likeliest tokens (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", sampler.top_p, "sample from the likeliest tokens that together have this probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", sampler.seed, "seed of the sampling")->capture_default_str();
  add_allow_older(app, options->allow_older);
  return [options] {
    StopSignal::install();
    LoadedRun loaded(options->run, options->allow_older ? IfDamaged::use_older : IfDamaged::refuse);
    const Tokenizer& tokenizer = *loaded.tokenizer().tokenizer;
    if (!loaded.task().predicts_tokens()) {
      throw usage_error(fmt::format("'{}' predicts labels and does not generate text", options->run),
                        "use 'gradmill predict'");
    }
    GenerateOptions generating = options->generate;
    generating.stop_token = loaded.end_of_text();
    generating.num_ids = tokenizer.vocab_size();
    std::vector<TokenId> prompt;
    if (options->chat || !options->messages.empty()) {
      const std::string messages = options->messages.empty()
                                       ? one_turn(options->system, options->prompt)
                                       : read_whole(options->messages, kMostMessages, "give a JSON array of messages");
      ChatPrompt conversation = chat_prompt(loaded.tokenizer(), messages);
      prompt = std::move(conversation.ids);
      generating.more_stops = std::move(conversation.stops);
    } else {
      prompt = tokenizer.encode(options->prompt).ids;
    }
    TextStream text(tokenizer, prompt);
    generate(loaded.session(), prompt, generating, [&](int32_t token) {
      fmt::print("{}", text.add(token));
      return std::fflush(stdout) == 0 && !StopSignal::requested();  // stop when nobody reads the output any more
    });
    fmt::print("{}\n", text.finish());
    return 0;
  };
}

}  // namespace gradmill::cli
