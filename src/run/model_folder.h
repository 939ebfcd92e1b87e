// SPDX-License-Identifier: Apache-2.0
// Writes and reads a run's model in the form of a Hugging Face folder: tensors under Hugging Face's names, and
// config.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/store.h"
#include "model_files/hf_names.h"
#include "run/run_model.h"
#include "session/session.h"
#include "run/train_state.h"

namespace gradmill {

// The files of a checkpoint: its weights, and what else its run needs to resume.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr const char* kKeptConfigFile = "run.yaml";  // the settings that a checkpoint was made with

// The weights in a checkpoint: all of them, or with adapters what PEFT would store.
CheckpointFile weights_file(const RunModel& run_model, const Transformer& model, const TensorView& masters);
std::string adapter_json(const RunModel& run_model);
// Throws a data error if adapters were trained with other base weights than those of the run's model now.
void check_same_base(const TrainState& saved, const RunModel& run_model);
// Views of the flat masters, which are in host memory. Fused parameters appear as several tensors, as in Hugging Face's
// files; biases that the family has but the model does not appear as zeros.
std::vector<NamedTensor> model_tensors(const Transformer& model, const Family& family, const TensorView& masters);
// Loads the masters. Throws a data error that names a tensor if it is missing or has another shape.
void load_model_tensors(const SafeTensors& file, const Transformer& model, const Family& family,
                        const TensorView& masters);
// Loads weights, averages and the optimiser's state of a checkpoint into a session, which is then at `progress`. If the
// checkpoint has no averages, they start from its weights.
void load_session(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model, Session& session,
                  const Session::Progress& progress);
// The averages of a run, in the order of the flat masters; undefined if it keeps none.
TensorView find_averages(const Checkpoint& checkpoint, const Transformer& trained);
// Loads the weights that evaluations use (the averages, if the run keeps them) into a session for inference. `model`
// may be the model that the run trained, or the same with everything frozen.
void load_inference(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model,
                    Session& session);
inline Session::Progress progress_of(const TrainState& state) {
  return {state.updates, state.loss_scale, state.scale_streak};
}

}  // namespace gradmill
