// SPDX-License-Identifier: Apache-2.0
#include "run/model_folder.h"

#include <cstring>

#include "adapters/peft_folder.h"
#include "core/error.h"

namespace gradmill {
namespace {

// Calls visit(hugging face tensor, view of our rows that it holds) for every stored tensor of a parameter.
template <class Visit>
void visit_tensors(const Transformer& model, const Family& family, ParamId id, const TensorView& whole, Visit&& visit) {
  int64_t begin = 0;
  for (const HfTensor& tensor : hf_tensors(family, model, id)) {
    visit(tensor, whole.slice_rows(begin, begin + tensor.rows));
    begin += tensor.rows;
  }
}

// Does the same for all parameters that have a master.
template <class Visit>
void visit_tensors(const Transformer& model, const Family& family, const TensorView& masters, Visit&& visit) {
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const TensorView whole = model.params().view(id, masters);
    if (whole.defined())
      visit_tensors(model, family, id, whole, visit);  // otherwise it is frozen, and the base's files have it
  }
}

// Loads the weights of a checkpoint into masters.
void load_masters(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model,
                  const TensorView& masters) {
  if (run_model.adapters) {
    load_adapter_tensors(checkpoint.tensors(kAdapterFile), run_model.family(), model, masters);
  } else {
    load_model_tensors(checkpoint.tensors(kModelFile), model, run_model.family(), masters);
  }
}

// Loads a session without masters, parameter by parameter. `trained` is the model of the run, which had masters.
void load_frozen(const Checkpoint& checkpoint, const Transformer& trained, const Family& family, Session& session) {
  const TensorView averages = find_averages(checkpoint, trained);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    for (ParamId id = 0; id < trained.params().size(); ++id) {
      if (averages.defined()) {
        weights.load(ctx, id, trained.params().view(id, averages));
        continue;
      }
      const ParamSpec& spec = trained.params().spec(id);
      std::vector<float> values(static_cast<size_t>(spec.numel()));
      visit_tensors(trained, family, id, TensorView(values.data(), DType::fp32, spec.shape()),
                    [&](const HfTensor& tensor, const TensorView& view) {
                      checkpoint.tensors(kModelFile).copy_to(tensor.name, view, tensor.transposed);
                    });
      weights.set(ctx, id, values.data());
    }
    if (averages.defined()) checkpoint.tensors(kStateFile).check();
    weights.refresh_compute(ctx);
  });
}

}  // namespace

std::vector<NamedTensor> model_tensors(const Transformer& model, const Family& family, const TensorView& masters) {
  std::vector<NamedTensor> tensors;
  visit_tensors(model, family, masters, [&](const HfTensor& tensor, const TensorView& view) {
    tensors.push_back({tensor.name, view, tensor.transposed});
  });
  for (const HfTensor& tensor : hf_absent_biases(family, model)) {
    tensors.push_back({tensor.name, TensorView(nullptr, DType::fp32, {tensor.rows})});
  }
  return tensors;
}

void load_model_tensors(const SafeTensors& file, const Transformer& model, const Family& family,
                        const TensorView& masters) {
  visit_tensors(model, family, masters, [&](const HfTensor& tensor, const TensorView& view) {
    file.copy_to(tensor.name, view, tensor.transposed);
  });
}

CheckpointFile weights_file(const RunModel& run_model, const Transformer& model, const TensorView& masters) {
  if (run_model.adapters) return {kAdapterFile, adapter_tensors(run_model.family(), model, masters)};
  return {kModelFile, model_tensors(model, run_model.family(), masters)};
}

std::string adapter_json(const RunModel& run_model) {
  return adapter_config_json(run_model.adapters->config, run_model.family().params.layers_transposed);
}

void check_same_base(const TrainState& saved, const RunModel& run_model) {
  if (saved.base_hash == run_model.base_hash()) return;
  throw data_error("these adapters were trained with other base weights than those that model.path has now",
                   "set model.path to the folder or file that the run was started with");
}

void load_session(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model, Session& session,
                  const Session::Progress& progress) {
  const Session::HostState state = session.host_state(false);
  load_masters(checkpoint, model, run_model, state.masters);
  const SafeTensors& file = checkpoint.tensors(kStateFile);
  for (const StateTensor& tensor : state.beside) {
    if (tensor.name == Session::kAverageName && !file.contains(tensor.name)) {
      std::memcpy(tensor.view.data, state.masters.data, tensor.view.bytes());
    } else {
      file.copy_to(tensor.name, tensor.view);
    }
  }
  session.restore(state, progress);
}

TensorView find_averages(const Checkpoint& checkpoint, const Transformer& trained) {
  const SafeTensors& state = checkpoint.tensors(kStateFile);
  if (!state.contains(Session::kAverageName)) return {};
  const TensorView averages = state.at(Session::kAverageName);
  if (averages.dtype != DType::fp32 || averages.numel() != trained.params().flat_size()) {
    throw data_error(fmt::format("{}: the size of {} does not match the model",
                                 (checkpoint.folder() / kStateFile).string(), Session::kAverageName),
                     "choose another checkpoint");
  }
  return averages;
}

void load_inference(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model,
                    Session& session) {
  if (model.params().flat_size() == 0) return load_frozen(checkpoint, *run_model.network, run_model.family(), session);
  const Session::HostState state = session.host_state(false);
  const TensorView averages = find_averages(checkpoint, model);
  if (averages.defined()) {
    std::memcpy(state.masters.data, averages.data, averages.bytes());
    checkpoint.tensors(kStateFile).check();
  } else {
    load_masters(checkpoint, model, run_model, state.masters);
  }
  session.restore(state, {});
}

}  // namespace gradmill
