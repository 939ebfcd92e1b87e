// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/descriptor.h"

#include <algorithm>

#include "paper_gpu/cudnn/limits.h"

namespace gradmill::paper::dnn {
namespace {

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:  // 32-bit numbers and enumerations
      return 4;
  }
}

template <class Value>
std::unique_ptr<Attribute> one(cudnnBackendAttributeType_t type, Value value) {
  return std::make_unique<Attribute>(make_attribute(type, 1, &value));
}

std::unique_ptr<Attribute> one(Handle descriptor) {
  Attribute attribute{.type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = 1, .bytes = {}, .descriptors = {}};
  attribute.descriptors.push_back(std::move(descriptor));
  return std::make_unique<Attribute>(std::move(attribute));
}

std::unique_ptr<Attribute> none(cudnnBackendAttributeType_t type) {
  return std::make_unique<Attribute>(Attribute{.type = type, .count = 0, .bytes = {}, .descriptors = {}});
}

// A finished descriptor with a single attribute, which is itself a descriptor.
Handle make(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name, const Handle& child) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  made->attributes[name] = std::move(*one(child));
  made->finalized = true;
  return made;
}

// Engines can be requested by number, as the frontend does for some problems.
constexpr int64_t kNumEngines = 16;

// Recommends one engine for a supported graph, and none otherwise.
std::unique_ptr<Attribute> find_engines(const Handle& operations) {
  if (operations == nullptr || !refusal(*operations->graph).empty()) return none(CUDNN_TYPE_BACKEND_DESCRIPTOR);
  const Handle engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, operations);
  return one(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, engine));
}

int64_t workspace_of(const Handle& config) {
  const Handle engine = config->child(CUDNN_ATTR_ENGINECFG_ENGINE);
  return workspace_bytes(*engine->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->graph);
}

}  // namespace

const Attribute* Descriptor::find(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}

Handle Descriptor::child(cudnnBackendAttributeName_t name) const {
  const Attribute* const found = find(name);
  return found == nullptr || found->descriptors.empty() ? nullptr : found->descriptors.front();
}

Attribute make_attribute(cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  Attribute made{.type = type, .count = count, .bytes = {}, .descriptors = {}};
  const auto size = static_cast<size_t>(count);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const all = static_cast<Handle* const*>(elements);
    for (size_t i = 0; i < size; ++i) made.descriptors.push_back(*all[i]);
  } else {
    const auto* const all = static_cast<const std::byte*>(elements);
    made.bytes.assign(all, all + size * size_of(type));
  }
  return made;
}

void copy_out(const Attribute& attribute, int64_t requested, int64_t* count, void* elements) {
  if (count != nullptr) *count = attribute.count;
  if (elements == nullptr) return;
  const auto copied = static_cast<size_t>(std::min(requested, attribute.count));
  if (attribute.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto* const all = static_cast<Handle**>(elements);
    for (size_t i = 0; i < copied; ++i) *all[i] = attribute.descriptors[i];
  } else if (copied > 0) {
    std::memcpy(elements, attribute.bytes.data(), copied * size_of(attribute.type));
  }
}

std::unique_ptr<Attribute> computed_attribute(const Handle& descriptor, cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return one(CUDNN_TYPE_INT64, kNumEngines);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return find_engines(descriptor->child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return one(CUDNN_TYPE_INT64, int64_t{0});
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return none(CUDNN_TYPE_NUMERICAL_NOTE);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return none(CUDNN_TYPE_BEHAVIOR_NOTE);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      return none(CUDNN_TYPE_BACKEND_DESCRIPTOR);
    case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
      return one(CUDNN_TYPE_INT32, int32_t{0});
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return one(CUDNN_TYPE_INT64, workspace_of(descriptor));
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return one(CUDNN_TYPE_INT64, workspace_of(descriptor->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)));
    default:
      return nullptr;
  }
}

}  // namespace gradmill::paper::dnn
