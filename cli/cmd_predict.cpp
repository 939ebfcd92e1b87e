// SPDX-License-Identifier: Apache-2.0
// gradmill predict
#include <cstdio>
#include <memory>

#include "commands.h"
#include "files/output_file.h"
#include "report/predictions.h"

namespace gradmill::cli {
namespace {

PredictionFormat format_of(const std::string& out, const std::string& asked) {
  if (asked == "csv") return PredictionFormat::csv;
  return asked == "auto" && out.ends_with(".csv") ? PredictionFormat::csv : PredictionFormat::jsonl;
}

}  // namespace

Run add_predict(CLI::App& app) {
  struct Options {
    std::string model, in, out, format = "auto", first, second;
    std::optional<double> threshold;
    bool allow_older = false;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("model", options->model, "a run folder, a checkpoint, or a Hugging Face folder of a classifier")
      ->required();
  app.add_option("--in", options->in, "texts or pairs of texts: .jsonl, .csv or .tsv, also .gz and .zst")->required();
  app.add_option("--out", options->out, "file to write; default: the terminal");
  app.add_option("--format", options->format, "jsonl, csv, or auto (by the extension of --out)")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "jsonl", "csv"}));
  app.add_option("--first-column", options->first,
                 "column of the text, or of a pair's first text; default: as in training");
  app.add_option("--second-column", options->second, "column of a pair's second text");
  app.add_option("--threshold", options->threshold,
                 "two classes: predict the second class from this probability upwards; default: the run's tuned "
                 "threshold, if any")
      ->check(CLI::Range(0.0, 1.0));
  add_allow_older(app, options->allow_older);
  return [options] {
    LoadedRun run(options->model, options->allow_older ? IfDamaged::use_older : IfDamaged::refuse);
    if (run.task().predicts_tokens()) {
      throw usage_error(fmt::format("'{}' is a language model", options->model), "use 'gradmill generate'");
    }
    RunConfig config = run.config();
    if (!options->first.empty()) {
      config.data.first_column = options->first;
      config.data.second_column = options->second;
    }
    const LabelledSet set = read_unlabelled(options->in, config);
    const std::optional<double> threshold = options->threshold ? options->threshold : run.threshold();
    const std::string lines =
        prediction_lines(run.answer_set(set), run.task(), threshold, format_of(options->out, options->format));
    if (options->out.empty()) {
      std::fwrite(lines.data(), 1, lines.size(), stdout);
    } else {
      replace_file(options->out, lines);
    }
    return 0;
  };
}

}  // namespace gradmill::cli
