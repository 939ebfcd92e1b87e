// SPDX-License-Identifier: Apache-2.0
// gradmill eval and gradmill generate: what to do with a finished run.
#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "train/generator.h"
#include "train/loaded_run.h"
#include "train/stop_signal.h"
#include "train/text_stream.h"

namespace gradmill::cli {

Run add_eval(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  const auto dataset = std::make_shared<std::string>();
  app.add_option("run", *run, "a run folder or a checkpoint")->required();
  app.add_option("--dataset", *dataset, "other data to evaluate on; all of it is used");
  return [=] {
    LoadedRun loaded(*run);
    const Evaluation result = dataset->empty() ? loaded.evaluate_validation() : loaded.evaluate_text(*dataset);
    fmt::print("{{\"step\": {}, \"loss\": {:.6f}, \"perplexity\": {:.4f}, \"{}\": {:.4f}, \"tokens\": {}}}\n",
               loaded.step(), result.loss(), std::exp(result.loss()),
               loaded.tokenizer().is_chars() ? "bits_per_char" : "bits_per_token", result.loss() / std::log(2.0),
               result.tokens);
    return 0;
  };
}

Run add_generate(CLI::App& app) {
  struct Options {
    std::string run, prompt = "\n";
    GenerateOptions generate{.max_tokens = 500, .sampler = {.temperature = 0.8}};
  };
  const auto options = std::make_shared<Options>();
  app.add_option("run", options->run, "a run folder or a checkpoint")->required();
  app.add_option("--prompt", options->prompt, "text to go on from");
  app.add_option("--tokens", options->generate.max_tokens, "tokens to write")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  SamplerOptions& sampler = options->generate.sampler;
  app.add_option("--temperature", sampler.temperature, "0: always the likeliest")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", sampler.top_k, "choose among so many (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", sampler.top_p, "choose among the likeliest that hold this probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", sampler.seed, "of the choices")->capture_default_str();
  return [options] {
    StopSignal::install();
    LoadedRun loaded(options->run);
    const Tokenizer& tokenizer = *loaded.tokenizer().tokenizer;
    const std::vector<TokenId> prompt = tokenizer.encode(options->prompt).ids;
    GenerateOptions generating = options->generate;
    generating.stop_token = loaded.end_of_text();
    TextStream text(tokenizer, prompt);
    generate(loaded.session(), prompt, generating, [&](int32_t token) {
      fmt::print("{}", text.add(token));
      std::fflush(stdout);
      return !StopSignal::requested();
    });
    fmt::print("{}\n", text.finish());
    return 0;
  };
}

}  // namespace gradmill::cli
