// SPDX-License-Identifier: Apache-2.0
// open_run: opens the parts of a run, each once: tokenizer, model files, data, network and session.
#pragma once

#include <memory>

#include "run/note_relay.h"
#include "run/run_data.h"
#include "run/run_model.h"
#include "session/session.h"

namespace gradmill {

struct RunParts {
  std::unique_ptr<RunData> data;
  RunModel model;
  std::unique_ptr<Session> session;  // of the model's network, with its initial weights
  // The notes of data, model and session. The session uses it as long as it lives.
  std::shared_ptr<NoteRelay> notes = std::make_shared<NoteRelay>();
};

// Throws what the parts throw. A model that does not fit the settings is refused before its data is tokenised.
// The run is one of the communicator's ranks, which must outlive it.
RunParts open_run(const RunConfig& config, const RunDataOptions& options = {},
                  Communicator& communicator = single_rank());

}  // namespace gradmill
