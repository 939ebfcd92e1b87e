// SPDX-License-Identifier: Apache-2.0
// The table of commands. Each command has its own file; its function adds the options to `app` and returns what to run.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace gradmill::cli {

using Run = std::function<int()>;

Run add_train(CLI::App& app);
Run add_eval(CLI::App& app);
Run add_generate(CLI::App& app);
Run add_predict(CLI::App& app);
Run add_export(CLI::App& app);
Run add_compare(CLI::App& app);
Run add_config(CLI::App& app);
Run add_data(CLI::App& app);
Run add_tokenizer(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_doctor(CLI::App& app);
Run add_completion(CLI::App& app);
Run add_man(CLI::App& app);
Run add_version(CLI::App& app);

// For commands that use a run's checkpoint.
inline void add_allow_older(CLI::App& app, bool& allow_older) {
  app.add_flag("--allow-older", allow_older, "if the run's newest checkpoint is damaged, use the newest intact one");
}

struct Command {
  const char* name;
  const char* summary;
  Run (*add)(CLI::App& app);
};

inline constexpr Command kCommands[] = {
    {"train", "train or fine-tune a model on text, instructions or labelled data", add_train},
    {"eval", "evaluate a trained model on its validation data or on other data", add_eval},
    {"generate", "generate text with a trained model, or answer in a chat", add_generate},
    {"predict", "predict classes and probabilities, or numbers, for texts and pairs of texts", add_predict},
    {"export", "export a model for transformers, llama.cpp or PEFT", add_export},
    {"compare", "compare two runs: settings, metrics, curves", add_compare},
    {"config", "show the settings of a run and where they come from", add_config},
    {"data", "tokenise data files, or inspect them", add_data},
    {"tokenizer", "train a tokenizer, or try one out", add_tokenizer},
    {"plan", "plan the memory and work of a run, for this machine or for a GPU it does not have", add_plan},
    {"bench", "measure training steps, single ops, and the gain of each optimisation", add_bench},
    {"doctor", "show what this machine offers: CPU, GPUs, CUDA libraries, disk", add_doctor},
    {"completion", "print a completion script for bash, zsh or fish", add_completion},
    {"man", "print the manual page", add_man},
    {"version", "print the version", add_version},
};

}  // namespace gradmill::cli
