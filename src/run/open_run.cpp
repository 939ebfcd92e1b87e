// SPDX-License-Identifier: Apache-2.0
#include "run/open_run.h"

#include "run/first_weights.h"
#include "run/load_run_data.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

RunModel open_mapped_model(const RunConfig& config, const Task& task, int64_t vocab, ModelFiles files) {
  RunModel model = open_run_model(config, task, vocab, std::move(files));
  model.map_weights();
  return model;
}

// Opens a run that starts from model.path. The model is opened before the data, except for a classifier, whose classes
// come from the data.
void open_from_files(RunParts& parts, const RunConfig& config, RunDataOptions options) {
  std::optional<RunTokenizer> tokenizer;
  if (options.tokenizer == nullptr) {
    options.tokenizer = &tokenizer.emplace(open_run_tokenizer(tokenizer_name(config)));
  }
  const int64_t vocab = options.tokenizer->tokenizer->vocab_size();
  ModelFiles files = open_model_files(config);
  check_model_fits(config, files.config, vocab);
  if (config.data.kind() != TaskKind::classify) {
    parts.model = open_mapped_model(config, task_without_data(config), vocab, std::move(files));
    parts.data = load_run_data(config, options);
    return;
  }
  const std::optional<LabelMap> labels = labels_of_model(files.config);
  if (labels) options.labels_of_model = &*labels;
  parts.data = load_run_data(config, options);
  parts.model = open_mapped_model(config, parts.data->task(), vocab, std::move(files));
}

}  // namespace

RunParts open_run(const RunConfig& config, const RunDataOptions& asked, Communicator& communicator) {
  RunDataOptions options = asked;
  options.rank = communicator.rank();
  options.num_ranks = communicator.size();
  RunParts parts;
  if (!config.model.path.empty()) {
    open_from_files(parts, config, options);
  } else {
    parts.data = load_run_data(config, options);
    parts.model = open_run_model(config, parts.data->task(), parts.data->tokenizer().tokenizer->vocab_size());
  }
  SessionOptions session = session_options(config, parts.data->shape(batch_shape(config, options.num_ranks)));
  session.communicator = &communicator;
  session.note = [notes = parts.notes](const std::string& line) { notes->add(line); };
  parts.session = std::make_unique<Session>(*parts.model.network, session);
  load_first_weights(parts.model, *parts.model.network, *parts.session, session.note);
  return parts;
}

}  // namespace gradmill
