// SPDX-License-Identifier: Apache-2.0
// A model as a Hugging Face folder: its tensors under their names there, and config.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"
#include "models/hf_names.h"
#include "checkpoint/store.h"
#include "run/run_model.h"
#include "session/session.h"
#include "run/train_state.h"

namespace gradmill {

// A checkpoint's weights, and what else its run needs to go on.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr const char* kKeptConfigFile = "run.yaml";  // the settings that a checkpoint was made with

HfFamily family_of(const TransformerSpec& spec);
// What a checkpoint holds of the weights: all of them, or what PEFT would keep beside a base.
CheckpointFile weights_file(const RunModel& described, const Transformer& model, const TensorView& masters);
std::string adapter_json(const RunModel& described);
// Throws a data error where adapters were trained beside other weights than those of the run's model now.
void check_same_base(const TrainState& saved, const RunModel& described);
// Views of the flat masters, which lie in host memory; fused parameters appear as the several tensors they are there,
// and biases that the model does not have, but the family has, as zeros.
std::vector<NamedTensor> model_tensors(const Transformer& model, HfFamily family, const TensorView& masters);
// Into the masters. Throws a data error that names a tensor that is missing or has another shape.
void load_model_tensors(const SafeTensors& file, const Transformer& model, HfFamily family, const TensorView& masters);
// Weights, moments and averages of a checkpoint into a session that stands at `progress`. A checkpoint without averages
// gives them its weights to start from.
void load_session(const Checkpoint& checkpoint, const Transformer& model, const RunModel& described, Session& session,
                  const Session::Progress& progress);
// The averages of a run that keeps them, in the order of the flat masters; undefined where it does not.
TensorView find_averages(const Checkpoint& checkpoint, const Transformer& trained);
// What the run is judged by, averages where it keeps them, into a session for inference. `model` may be what the run
// trained, or that with everything frozen.
void load_inference(const Checkpoint& checkpoint, const Transformer& model, const RunModel& described,
                    Session& session);
inline Session::Progress progress_of(const TrainState& state) {
  return {state.updates, state.loss_scale, state.scale_streak};
}
// `eos` is the token that ends a text; transformers would otherwise assume its own.
std::string model_config_json(const TransformerSpec& spec, std::optional<int32_t> eos = std::nullopt,
                              const Task& task = {});

}  // namespace gradmill
