// SPDX-License-Identifier: Apache-2.0
// cudnn-frontend calls cuDNN functions by name. This file defines them, each as a call into the library found at run
// time. (The frontend's own loader requires a shared CUDA runtime in addition to our static one.)
#include "cuda/sdpa_cudnn.h"

#include <cudnn_graph.h>

#include "cuda/library.h"

namespace gradmill::cuda {
namespace {

struct Cudnn {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetStream) get_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
  std::string missing;

  Cudnn() {
    const Library library = Library::open({"libcudnn.so.9"});
    missing = library.error();
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(name));
      if (function == nullptr && missing.empty()) missing = "libcudnn.so.9 has no " + std::string(name);
    };
    find(version, "cudnnGetVersion");
    find(error_string, "cudnnGetErrorString");
    find(last_error_string, "cudnnGetLastErrorString");
    find(create, "cudnnCreate");
    find(destroy, "cudnnDestroy");
    find(set_stream, "cudnnSetStream");
    find(get_stream, "cudnnGetStream");
    find(create_descriptor, "cudnnBackendCreateDescriptor");
    find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
    find(set_attribute, "cudnnBackendSetAttribute");
    find(get_attribute, "cudnnBackendGetAttribute");
    find(finalize, "cudnnBackendFinalize");
    find(execute, "cudnnBackendExecute");
  }
};

const Cudnn& cudnn() {
  static const Cudnn opened;
  return opened;
}

}  // namespace

const std::string& cudnn_missing() { return cudnn().missing; }
size_t cudnn_version() { return cudnn().version(); }
void CudnnHandleDeleter::operator()(cudnnContext* handle) const { cudnn().destroy(handle); }

}  // namespace gradmill::cuda

using gradmill::cuda::cudnn;

extern "C" {
size_t cudnnGetVersion() { return cudnn().version(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return cudnn().error_string(status); }
void cudnnGetLastErrorString(char* message, size_t size) { cudnn().last_error_string(message, size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return cudnn().create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return cudnn().destroy(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) { return cudnn().set_stream(handle, stream); }
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) { return cudnn().get_stream(handle, stream); }
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  return cudnn().create_descriptor(type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn().destroy_descriptor(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  return cudnn().set_attribute(descriptor, name, type, count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* elements) {
  return cudnn().get_attribute(descriptor, name, type, requested, count, elements);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) { return cudnn().finalize(descriptor); }
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return cudnn().execute(handle, plan, pack);
}
}
