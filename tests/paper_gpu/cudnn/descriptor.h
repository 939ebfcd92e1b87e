// SPDX-License-Identifier: Apache-2.0
// Descriptors of cuDNN's backend interface: named attributes, which are plain values or other descriptors.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gradmill::paper::dnn {

struct Descriptor;
struct Graph;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  int64_t count = 0;
  std::vector<std::byte> bytes;                          // plain values
  std::vector<std::shared_ptr<Descriptor>> descriptors;  // values of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

// Does not change after cudnnBackendFinalize, so that other descriptors may share it.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  bool finalized = false;
  std::shared_ptr<const Graph> graph;  // set in a CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR

  const Attribute* find(cudnnBackendAttributeName_t name) const;
  // The first descriptor of the attribute; null if there is none.
  std::shared_ptr<Descriptor> child(cudnnBackendAttributeName_t name) const;

  template <class Value>
  std::vector<Value> values(cudnnBackendAttributeName_t name) const {
    const Attribute* const found = find(name);
    std::vector<Value> all(found == nullptr ? 0 : found->bytes.size() / sizeof(Value));
    if (!all.empty()) std::memcpy(all.data(), found->bytes.data(), all.size() * sizeof(Value));
    return all;
  }
  template <class Value>
  Value value(cudnnBackendAttributeName_t name, Value otherwise) const {
    const std::vector<Value> all = values<Value>(name);
    return all.empty() ? otherwise : all.front();
  }
  bool flag(cudnnBackendAttributeName_t name) const { return value<uint8_t>(name, 0) != 0; }
};

// The object that a cudnnBackendDescriptor_t points to.
using Handle = std::shared_ptr<Descriptor>;

Attribute make_attribute(cudnnBackendAttributeType_t type, int64_t count, const void* elements);
// Copies up to `requested` elements. Descriptors are copied into those that the caller has created for them.
void copy_out(const Attribute& attribute, int64_t requested, int64_t* count, void* elements);

// Attributes computed by the library: engines of a graph, their properties, the workspace of a plan. Null if `name` is
// another attribute.
std::unique_ptr<Attribute> computed_attribute(const Handle& descriptor, cudnnBackendAttributeName_t name);

}  // namespace gradmill::paper::dnn
