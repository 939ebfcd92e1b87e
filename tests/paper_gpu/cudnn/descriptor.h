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
  std::vector<std::byte> bytes;                          // of plain values
  std::vector<std::shared_ptr<Descriptor>> descriptors;  // of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

// Does not change after cudnnBackendFinalize, so descriptors made of others may share them.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  bool finalized = false;
  std::shared_ptr<const Graph> graph;  // of CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR

  const Attribute* find(cudnnBackendAttributeName_t name) const;
  // The first of the attribute's descriptors; null if it has none.
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

// What a program holds as cudnnBackendDescriptor_t points to one of these.
using Handle = std::shared_ptr<Descriptor>;

Attribute make_attribute(cudnnBackendAttributeType_t type, int64_t count, const void* elements);
// Copies up to `requested` elements out. Descriptors are copied into those that the caller has made for them.
void copy_out(const Attribute& attribute, int64_t requested, int64_t* count, void* elements);

// Attributes that the library computes: engines of a graph, their properties, the workspace of a plan. Null if `name`
// is none of them.
std::unique_ptr<Attribute> computed_attribute(const Handle& descriptor, cudnnBackendAttributeName_t name);

}  // namespace gradmill::paper::dnn
