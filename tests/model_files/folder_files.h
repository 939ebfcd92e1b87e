// SPDX-License-Identifier: Apache-2.0
// Model folders made by tests: small models with random values, in any stored type.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"

namespace gradmill::test {

// A temporary folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / fmt::format("gradmill_hf_{}_{}", ::getpid(), next_++)) {
    std::filesystem::create_directories(path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  static inline int next_ = 0;
  std::filesystem::path path_;
};

struct FileTensor {
  std::string name, dtype;  // "F32", "BF16", "F16", "F64", "I64"
  std::vector<int64_t> dims;
  std::string bytes;
};

inline FileTensor make_tensor(const std::string& name, const std::string& dtype, std::vector<int64_t> dims) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  std::normal_distribution<float> normal(0, 0.1f);
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  FileTensor tensor{name, dtype, std::move(dims), {}};
  const auto add = [&](auto value) { tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (int64_t i = 0; i < count; ++i) {
    const float value = normal(random);
    if (dtype == "F32") add(value);
    if (dtype == "F64") add(static_cast<double>(value));
    if (dtype == "BF16") add(float_to_bf16_bits(value));
    if (dtype == "F16") add(float_to_fp16_bits(value));
    if (dtype == "I64") add(int64_t{i});
  }
  return tensor;
}

inline std::string safetensors_of(const std::vector<FileTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const FileTensor& tensor : tensors) {
    std::string dims;
    for (const int64_t dim : tensor.dims) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim);
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name, tensor.dtype,
                          dims, data.size(), data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + data;
}

inline constexpr const char* kTinyLlama = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16,
  "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 64, "tie_word_embeddings": true, "eos_token_id": 2})";
inline constexpr const char* kTinyGpt2 = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 40, "n_positions": 32, "n_embd": 16,
  "n_layer": 1, "n_head": 2})";

inline std::vector<FileTensor> tiny_llama(const std::string& dtype, const std::string& prefix = "model.") {
  std::vector<FileTensor> tensors = {make_tensor(prefix + "embed_tokens.weight", dtype, {40, 16}),
                                     make_tensor(prefix + "norm.weight", dtype, {16})};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", prefix, layer);
    tensors.push_back(make_tensor(at + "input_layernorm.weight", dtype, {16}));
    tensors.push_back(make_tensor(at + "post_attention_layernorm.weight", dtype, {16}));
    tensors.push_back(make_tensor(at + "self_attn.q_proj.weight", dtype, {16, 16}));
    tensors.push_back(make_tensor(at + "self_attn.k_proj.weight", dtype, {8, 16}));
    tensors.push_back(make_tensor(at + "self_attn.v_proj.weight", dtype, {8, 16}));
    tensors.push_back(make_tensor(at + "self_attn.o_proj.weight", dtype, {16, 16}));
    tensors.push_back(make_tensor(at + "mlp.gate_proj.weight", dtype, {24, 16}));
    tensors.push_back(make_tensor(at + "mlp.up_proj.weight", dtype, {24, 16}));
    tensors.push_back(make_tensor(at + "mlp.down_proj.weight", dtype, {16, 24}));
  }
  return tensors;
}

inline std::vector<FileTensor> tiny_gpt2(const std::string& dtype, const std::string& prefix) {
  std::vector<FileTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> dims) {
    tensors.push_back(make_tensor(prefix + name, dtype, std::move(dims)));
  };
  add("wte.weight", {40, 16});
  add("wpe.weight", {32, 16});
  for (const char* norm : {"ln_f", "h.0.ln_1", "h.0.ln_2"}) {
    add(norm + std::string(".weight"), {16});
    add(norm + std::string(".bias"), {16});
  }
  add("h.0.attn.c_attn.weight", {16, 48});
  add("h.0.attn.c_attn.bias", {48});
  add("h.0.attn.c_proj.weight", {16, 16});
  add("h.0.attn.c_proj.bias", {16});
  add("h.0.mlp.c_fc.weight", {16, 64});
  add("h.0.mlp.c_fc.bias", {64});
  add("h.0.mlp.c_proj.weight", {64, 16});
  add("h.0.mlp.c_proj.bias", {16});
  return tensors;
}

inline constexpr const char* kByteTokenizer = R"({"version":"1.0","added_tokens":[
  {"id":0,"content":"<|end|>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
  "normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
  {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]},"post_processor":null,
  "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
  "model":{"type":"BPE","vocab":{"<|end|>":0,"a":1,"b":2,"c":3,"ab":4,"abc":5,"1":6,"\u0120":7,"\u0120a":8},
  "merges":["a b","ab c","\u0120 a"]}})";

// Returns the message of the error that `action` throws.
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gradmill::test
