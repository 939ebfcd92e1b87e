// SPDX-License-Identifier: Apache-2.0
// The table of commands. Each lives in its own file, adds its options to `app` and returns what to run.
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
  app.add_flag("--allow-older", allow_older,
               "if the run's newest checkpoint is damaged, use the newest one that is not");
}

struct Command {
  const char* name;
  const char* summary;
  Run (*add)(CLI::App& app);
};

inline constexpr Command kCommands[] = {
    {"train", "train or fine-tune a model on texts, instructions or labelled data", add_train},
    {"eval", "how good a trained model is on its validation data or other", add_eval},
    {"generate", "write text with a trained model, or answer in a chat", add_generate},
    {"predict", "classes and probabilities, or numbers, for texts and pairs", add_predict},
    {"export", "a model for transformers or llama.cpp", add_export},
    {"compare", "tell two runs apart: settings, metrics, curves", add_compare},
    {"config", "the settings of a run, and where they come from", add_config},
    {"data", "tokenise data files, or look at what is in them", add_data},
    {"tokenizer", "learn a tokenizer, or try one out", add_tokenizer},
    {"plan", "memory and work of a run, for this machine or a GPU it need not have", add_plan},
    {"bench", "measure training steps, their ops, and what each optimisation gives", add_bench},
    {"doctor", "what this machine offers a run: CPU, GPUs, CUDA libraries, disk", add_doctor},
    {"completion", "print a completion script for bash or zsh", add_completion},
    {"man", "print the manual page", add_man},
    {"version", "print the version", add_version},
};

}  // namespace gradmill::cli
