// SPDX-License-Identifier: Apache-2.0
#include "model_files/weight_map.h"

#include <algorithm>

#include "core/error.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

constexpr std::string_view kFix = "check that config.json and the weights belong to the same model";

// Every name that files use for the tensor, the usual one first. `prefix` is the family's.
std::vector<std::string> spellings(const std::string& name, std::string_view prefix) {
  std::vector<std::string> names = {name};
  std::string_view body = name;
  if (body.starts_with(prefix)) {
    body.remove_prefix(prefix.size());
    names.emplace_back(body);
  } else {
    // A model without a head has no prefix, but the file may be of a model with a head.
    names.push_back(fmt::format("{}{}", prefix, name));
  }
  // Multimodal models, before and since version 5 of transformers.
  names.push_back("language_model." + name);
  names.push_back(fmt::format("model.language_model.{}", body));
  const size_t count = names.size();
  for (size_t i = 0; i < count; ++i) {
    constexpr std::string_view kWeight = "LayerNorm.weight", kBias = "LayerNorm.bias";
    if (names[i].ends_with(kWeight)) names.push_back(names[i].substr(0, names[i].size() - 6) + "gamma");
    if (names[i].ends_with(kBias)) names.push_back(names[i].substr(0, names[i].size() - 4) + "beta");
  }
  return names;
}

// Constants that models recompute, and tensors that are not weights at all.
bool is_buffer(std::string_view name) {
  return name.ends_with("position_ids") || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") || name.ends_with("token_type_ids");
}

bool may_be_new(std::string_view parameter) {
  return parameter.starts_with("classifier.") || parameter.starts_with("pooler.") || parameter.starts_with("head.");
}

class Mapper {
 public:
  Mapper(const TensorSource& source, const Family& family, const Transformer& model, bool new_head)
      : source_(source), family_(family), model_(model), new_head_(new_head), used_(source.tensors().size()) {}

  WeightMap map() {
    WeightMap map;
    for (ParamId id = 0; id < model_.params().size(); ++id) {
      map.parts.push_back(find_parts(id));
      if (map.parts.back().empty()) map.fresh.push_back(id);
    }
    check_tied_copies();
    for (size_t index = 0; index < used_.size(); ++index) {
      const std::string& name = source_.tensors()[index].name;
      if (!used_[index] && !is_buffer(name)) map.extra.push_back(name);
    }
    return map;
  }

 private:
  std::optional<size_t> find(const std::string& name) const {
    for (const std::string& spelling : spellings(name, family_.params.prefix)) {
      if (const auto index = source_.find(spelling)) return index;
    }
    return std::nullopt;
  }

  std::vector<WeightPart> find_parts(ParamId id) {
    const ParamSpec& spec = model_.params().spec(id);
    std::vector<WeightPart> parts;
    int64_t begin = 0;
    for (const HfTensor& tensor : hf_tensors(family_, model_, id)) {
      const auto index = find(tensor.name);
      const bool fits = index && matches(*index, tensor, spec);
      if (!fits && new_head_ && may_be_new(spec.name)) return {};
      if (!index) throw missing(tensor, spec);
      if (!fits) throw misfit(*index, tensor, spec);
      used_[*index] = true;
      parts.push_back({*index, begin, tensor.rows, is_transposed(*index, tensor)});
      begin += tensor.rows;
    }
    return parts;
  }

  bool is_transposed(size_t index, const HfTensor& tensor) const {
    return tensor.transposed != source_.tensors()[index].swapped;
  }

  static std::vector<int64_t> shape_of(const HfTensor& tensor, const ParamSpec& spec, bool transposed) {
    if (!spec.is_matrix()) return {tensor.rows};
    return transposed ? std::vector{spec.cols, tensor.rows} : std::vector{tensor.rows, spec.cols};
  }

  bool matches(size_t index, const HfTensor& tensor, const ParamSpec& spec) const {
    const SourceTensor& found = source_.tensors()[index];
    return found.readable && found.dims == shape_of(tensor, spec, is_transposed(index, tensor));
  }

  Error missing(const HfTensor& tensor, const ParamSpec& spec) const {
    const std::string file = source_.tensors().empty() ? "the model's file" : source_.tensors()[0].file;
    return data_error(fmt::format("{}: there is no tensor {} of shape {}", file, quote_for_message(tensor.name),
                                  shape_text(shape_of(tensor, spec, tensor.transposed))),
                      kFix);
  }

  Error misfit(size_t index, const HfTensor& tensor, const ParamSpec& spec) const {
    const SourceTensor& found = source_.tensors()[index];
    return data_error(fmt::format("{}: tensor {} is {} {}; the model needs numbers (F64, F32, F16, BF16) of shape {}",
                                  found.file, quote_for_message(found.name), found.type, shape_text(found.dims),
                                  shape_text(shape_of(tensor, spec, is_transposed(index, tensor)))),
                      kFix);
  }

  // A file may hold a tied tensor twice. Versions of transformers disagree on what different values mean.
  void check_tied_copies() {
    const TransformerSpec& spec = model_.spec();
    const bool language = spec.head == HeadKind::causal_lm || spec.head == HeadKind::masked_lm;
    if (!language || !spec.tied) return;
    const std::string weight = hf_head_tensor(family_, "head.weight");
    check_copy(weight, "embedding.tokens.weight");
    if (spec.head == HeadKind::masked_lm && spec.mlm_bias) {
      check_copy(weight.substr(0, weight.rfind('.')) + ".bias", "head.bias");
    }
  }

  void check_copy(const std::string& copy, const char* parameter) {
    const auto index = find(copy);
    if (!index || used_[*index]) return;
    const std::vector<HfTensor> names = hf_tensors(family_, model_, model_.params().find(parameter));
    if (!same_values(*index, *find(names[0].name))) {
      throw data_error(fmt::format("{}: {} differs from {}, though config.json ties them",
                                   source_.tensors()[*index].file, copy, names[0].name),
                       "set tie_word_embeddings to false to use it, or remove it from the file");
    }
    used_[*index] = true;
  }

  bool same_values(size_t a, size_t b) const {
    const SourceTensor &left = source_.tensors()[a], &right = source_.tensors()[b];
    if (!left.readable || left.dims != right.dims) return false;
    std::vector<float> row(static_cast<size_t>(left.cols())), other(row.size());
    for (int64_t i = 0; i < left.rows(); ++i) {
      source_.read_rows(a, i, i + 1, row.data());
      source_.read_rows(b, i, i + 1, other.data());
      if (row != other) return false;
    }
    return true;
  }

  const TensorSource& source_;
  const Family& family_;
  const Transformer& model_;
  bool new_head_;
  std::vector<bool> used_;
};

}  // namespace

WeightMap map_weights(const TensorSource& source, const Family& family, const Transformer& model, bool new_head) {
  return Mapper(source, family, model, new_head).map();
}

std::string WeightMap::fresh_names(const ParamTable& params) const {
  std::string names;
  for (const ParamId id : fresh) names += fmt::format("{}{}", names.empty() ? "" : ", ", params.spec(id).name);
  return names;
}

std::string WeightMap::extra_names(size_t most) const {
  std::string names;
  for (size_t i = 0; i < std::min(most, extra.size()); ++i) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", quote_for_message(extra[i]));
  }
  if (extra.size() > most) names += fmt::format(" and {} more", extra.size() - most);
  return names;
}

}  // namespace gradmill
