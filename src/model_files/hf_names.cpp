// SPDX-License-Identifier: Apache-2.0
#include "model_files/hf_names.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace gradmill {
namespace {

// Empty: the list does not have it.
std::string_view look_up(std::span<const NamePair> list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const NamePair& pair) { return pair.first == name; });
  return found == list.end() ? std::string_view{} : found->second;
}

struct ParsedName {
  std::string layer;   // "3", or empty
  std::string module;  // "attention.qkv"
  std::string leaf;    // "weight"
};

ParsedName parse(const std::string& name) {
  ParsedName parsed;
  const size_t dot = name.rfind('.');
  parsed.module = name.substr(0, dot);
  parsed.leaf = name.substr(dot + 1);
  constexpr std::string_view kPrefix = "layers.";
  if (parsed.module.starts_with(kPrefix)) {
    const size_t end = parsed.module.find('.', kPrefix.size());
    parsed.layer = parsed.module.substr(kPrefix.size(), end - kPrefix.size());
    parsed.module = parsed.module.substr(end + 1);
  }
  return parsed;
}

// A name that the list has with its leaf (a bias that stands alone), or without.
std::string stored_name(std::span<const NamePair> list, const std::string& module, const std::string& leaf) {
  if (const auto whole = look_up(list, fmt::format("{}.{}", module, leaf)); !whole.empty()) return std::string(whole);
  const auto name = look_up(list, module);
  return name.empty() ? std::string{} : fmt::format("{}.{}", name, leaf);
}

// Which named parts of a fused linear layer a parameter has.
std::vector<Linear::Slice> slices_of(const Transformer& model, const ParsedName& name) {
  const Block& block = model.blocks()[static_cast<size_t>(std::stoll(name.layer))];
  if (name.module == "attention.qkv") return block.attention().qkv().slices();
  if (name.module == "mlp.up") return block.mlp().up().slices();
  return {};
}

std::vector<HfTensor> layer_tensors(const ParamNames& names, const Transformer& model, const ParsedName& name,
                                    const ParamSpec& spec, const std::string& prefix) {
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  const std::string start = fmt::format("{}{}{}.", prefix, names.layer, name.layer);
  if (const std::string whole = stored_name(names.inner, name.module, name.leaf); !whole.empty()) {
    return {{start + whole, rows, names.layers_transposed && spec.is_matrix()}};
  }
  std::vector<HfTensor> tensors;
  for (const Linear::Slice& slice : slices_of(model, name)) {
    const std::string part = stored_name(names.inner, fmt::format("{}/{}", name.module, slice.name), name.leaf);
    if (part.empty()) return {};
    tensors.push_back({start + part, slice.rows});
  }
  return tensors;
}

std::vector<HfTensor> tensors_of(const Family& family, const Transformer& model, const ParamSpec& spec) {
  if (spec.beside_model) return {};
  const ParsedName name = parse(spec.name);
  const ParamNames& names = family.params;
  const std::string prefix(model.spec().head == HeadKind::none ? "" : names.prefix);
  const int64_t rows = spec.is_matrix() ? spec.rows : spec.cols;
  std::vector<HfTensor> tensors;
  if (!name.layer.empty()) {
    tensors = layer_tensors(names, model, name, spec, prefix);
  } else if (const std::string body = stored_name(names.body, name.module, name.leaf); !body.empty()) {
    tensors = {{prefix + body, rows}};
  } else if (const std::string head = stored_name(names.heads, name.module, name.leaf); !head.empty()) {
    tensors = {{head, rows}};
  }
  if (tensors.empty()) {
    throw usage_error(fmt::format("parameter '{}' has no name in this model family", spec.name),
                      "check the model's settings");
  }
  return tensors;
}

}  // namespace

std::vector<HfTensor> hf_tensors(const Family& family, const Transformer& model, ParamId id) {
  return tensors_of(family, model, model.params().spec(id));
}

std::vector<HfTensor> hf_absent_biases(const Family& family, const Transformer& model) {
  std::vector<HfTensor> absent;
  if (!family.params.always_biased) return absent;
  const ParamTable& params = model.params();
  std::set<std::string> names;
  for (ParamId id = 0; id < params.size(); ++id) names.insert(params.spec(id).name);
  for (ParamId id = 0; id < params.size(); ++id) {
    const ParamSpec& weight = params.spec(id);
    const ParsedName name = parse(weight.name);
    // Embeddings and the head have none in any case.
    if (name.leaf != "weight" || (name.layer.empty() && name.module != "norm")) continue;
    const ParamSpec bias{.name = weight.name.substr(0, weight.name.rfind('.')) + ".bias",
                         .cols = weight.is_matrix() ? weight.rows : weight.cols};
    if (!names.contains(bias.name)) absent.push_back(tensors_of(family, model, bias).front());
  }
  return absent;
}

std::string hf_head_tensor(const Family& family, const std::string& parameter) {
  const ParsedName name = parse(parameter);
  return stored_name(family.params.heads, name.module, name.leaf);
}

}  // namespace gradmill
