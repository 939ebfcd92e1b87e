// SPDX-License-Identifier: Apache-2.0
// cuDNN on the paper GPU: the functions that cudnn-frontend calls for attention, as a library that is opened by name.
// It computes the results, and refuses what cuDNN of this version would refuse on the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "paper_gpu/cudnn/duration.h"
#include "paper_gpu/cudnn/execute.h"
#include "paper_gpu/cudnn/kernels.h"
#include "paper_gpu/cudnn/limits.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/streams.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace gradmill::paper::dnn {
namespace {

thread_local std::string last_error;

Handle& as_handle(void* descriptor) { return *static_cast<Handle*>(descriptor); }

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}
// For calls that the real library would misinterpret or not support.
cudnnStatus_t refuse_with_fault(cudnnStatus_t status, const std::string& why) {
  fault("cuDNN: " + why);
  return refuse(status, why);
}

cudnnStatus_t finish_graph(Descriptor& descriptor) {
  try {
    descriptor.graph = read_graph(descriptor);
  } catch (const std::runtime_error& unknown) {
    return refuse_with_fault(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, unknown.what());
  }
  for (const Operation& operation : descriptor.graph->operations) {
    if (operation.kind != Kind::pointwise || is_known(operation.mode)) continue;
    return refuse_with_fault(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                             fmt::format("pointwise mode {} is not on paper", int(operation.mode)));
  }
  return CUDNN_STATUS_SUCCESS;
}

Pack read_pack(const Descriptor& descriptor) {
  Pack pack;
  const auto ids = descriptor.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = descriptor.values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < std::min(ids.size(), pointers.size()); ++i) pack.data[ids[i]] = pointers[i];
  pack.workspace = descriptor.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  return pack;
}

}  // namespace
}  // namespace gradmill::paper::dnn

using namespace gradmill::paper;
using namespace gradmill::paper::dnn;

extern "C" {

size_t cudnnGetVersion() { return version(); }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "the paper GPU refuses";
}
void cudnnGetLastErrorString(char* message, size_t size) {
  if (size == 0) return;
  const size_t length = std::min(size - 1, last_error.size());
  std::memcpy(message, last_error.data(), length);
  message[length] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (version() == 0) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "PAPER_CUDNN is off");
  expect_chosen("cuDNN is started");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *descriptor = new Handle(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  Descriptor& changed = *as_handle(descriptor);
  if (changed.finalized) return refuse_with_fault(CUDNN_STATUS_BAD_PARAM, "a descriptor changes when it is finalized");
  if (count < 0 || (count > 0 && elements == nullptr)) {
    return refuse_with_fault(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, fmt::format("attribute {} is null", int(name)));
  }
  Attribute made = make_attribute(type, count, elements);
  for (const Handle& part : made.descriptors) {
    if (part->finalized) continue;
    return refuse_with_fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                             fmt::format("attribute {} is not finalized", int(name)));
  }
  changed.attributes[name] = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* elements) {
  const Handle& asked = as_handle(descriptor);
  if (!asked->finalized) {
    return refuse_with_fault(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is read before it is finalized");
  }
  const Attribute* found = asked->find(name);
  const std::unique_ptr<Attribute> computed = found == nullptr ? computed_attribute(asked, name) : nullptr;
  if (found == nullptr) found = computed.get();
  if (found == nullptr) {
    return refuse_with_fault(CUDNN_STATUS_NOT_SUPPORTED, fmt::format("attribute {} is not on paper", int(name)));
  }
  if (found->type != type) return refuse_with_fault(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "an attribute's type");
  copy_out(*found, requested, count, elements);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& finished = *as_handle(descriptor);
  finished.finalized = true;
  if (finished.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return finish_graph(finished);
  if (finished.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    last_error = refusal(*finished.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->graph);
  }
  if (finished.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const std::string reason = refusal(*finished.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->graph);
    if (!reason.empty()) return refuse(CUDNN_STATUS_NOT_SUPPORTED, reason);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Handle config = as_handle(plan)->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto graph = config->child(CUDNN_ATTR_ENGINECFG_ENGINE)->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->graph;
  const Pack where = read_pack(*as_handle(pack));
  expect_chosen("cuDNN runs");
  if (const std::string reason = check(*graph, where); !reason.empty()) {
    return refuse_with_fault(CUDNN_STATUS_BAD_PARAM, reason);
  }
  std::function<void()> work;
  if (computes()) work = Execution(graph, where);
  if (model::models_time()) {
    work = [compute = std::move(work), seconds = duration_of(*graph)] {
      if (compute) compute();
      take_time(seconds);
    };
  }
  return enqueue(handle->stream, std::move(work)) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
