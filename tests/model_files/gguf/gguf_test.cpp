// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "model_files/folder_files.h"
#include "model_files/gguf/gguf_export.h"
#include "model_files/gguf/gguf_model.h"
#include "model_files/model_folder.h"
#include "support/goldens.h"
#include "tokenizer/tokenizer_file.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

struct Exported : TempFolder {
  Exported(const char* config_text, const std::vector<FileTensor>& tensors, GgmlType type) {
    write("config.json", config_text);
    write("model.safetensors", safetensors_of(tensors));
    write("tokenizer.json", kByteTokenizer);
    write("tokenizer_config.json", R"({"eos_token":"<|end|>","chat_template":"{{ x }}"})");
    const HfConfig config = read_folder_config(path());
    export_gguf(file(), FolderTensors(path()), config, companion_files(path(), config), {type, "tiny"});
  }
  fs::path file() const { return path() / "out.gguf"; }
};

void expect_same(const TensorSource& a, const TensorSource& b) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (size_t i = 0; i < a.tensors().size(); ++i) {
    const SourceTensor &left = a.tensors()[i], &right = b.tensors()[i];
    EXPECT_EQ(left.name, right.name);
    std::vector<float> x(static_cast<size_t>(left.numel())), y(x.size());
    a.read_rows(i, 0, left.rows(), x.data());
    b.read_rows(i, 0, right.rows(), y.data());
    if (left.swapped != right.swapped) {
      std::vector<float> turned(y.size());
      for (int64_t row = 0; row < right.rows(); ++row) {
        for (int64_t col = 0; col < right.cols(); ++col) {
          turned[static_cast<size_t>(col * right.rows() + row)] = y[static_cast<size_t>(row * right.cols() + col)];
        }
      }
      y = turned;
    }
    EXPECT_EQ(x, y) << left.name;
  }
}

TEST(Gguf, BlocksAreTheReferenceBitForBit) {
  const SafeTensors goldens(golden_path("gguf_blocks"));
  const auto bytes = [&](const std::string& name) {
    const auto place = std::find(goldens.names().begin(), goldens.names().end(), name);
    return goldens.stored(static_cast<size_t>(place - goldens.names().begin())).bytes;
  };
  for (const auto& [type, name] : {std::pair{GgmlType::f32, "F32"},
                                   {GgmlType::f16, "F16"},
                                   {GgmlType::bf16, "BF16"},
                                   {GgmlType::q8_0, "Q8_0"},
                                   {GgmlType::q4_0, "Q4_0"},
                                   {GgmlType::q4_1, "Q4_1"},
                                   {GgmlType::q4_k, "Q4_K"},
                                   {GgmlType::q6_k, "Q6_K"}}) {
    const TensorView expected = goldens.at(fmt::format("{}.values", name));
    std::vector<float> values(static_cast<size_t>(expected.numel()));
    dequantise(type, bytes(fmt::format("{}.blocks", name)), values.data());
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], expected.ptr<float>()[i]) << name << " " << i;
  }
  const TensorView source = goldens.at("Q8_0.source");
  const std::span<const std::byte> expected = bytes("Q8_0.blocks");
  std::vector<std::byte> blocks(expected.size());
  quantise_q8_0({source.ptr<float>(), static_cast<size_t>(source.numel())}, blocks.data());
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), expected.begin()));
}

TEST(Gguf, WritesWhatItReads) {
  for (const bool llama : {true, false}) {
    const Exported exported(llama ? kTinyLlama : kTinyGpt2,
                            llama ? tiny_llama("F32") : tiny_gpt2("F32", "transformer."), GgmlType::f32);
    const GgufModel model(exported.file());
    const HfConfig config = read_folder_config(exported.path());
    EXPECT_EQ(model.config().family, config.family);
    EXPECT_EQ(model.config().spec.kv_heads, config.spec.kv_heads);
    EXPECT_EQ(model.config().spec.mlp_width, config.spec.mlp_width);
    EXPECT_EQ(model.config().spec.max_positions, config.spec.max_positions);
    EXPECT_EQ(model.config().spec.tied, true);
    EXPECT_EQ(model.config().spec.norm_eps, config.spec.norm_eps);
    EXPECT_EQ(model.config().eos_tokens, std::vector<int64_t>{0});
    expect_same(FolderTensors(exported.path()), model);
    // And from there to a folder again.
    TempFolder parent;
    export_model(parent.path() / "again", model, model.config(), {}, nullptr);
    expect_same(FolderTensors(exported.path()), FolderTensors(parent.path() / "again"));
  }
}

// llama.cpp's Llama has no window; without one Mistral is a Llama.
TEST(Gguf, MistralIsALlama) {
  const auto config = [](const char* window) {
    auto json = nlohmann::json::parse(kTinyLlama);
    json["model_type"] = "mistral";
    json["architectures"] = {"MistralForCausalLM"};
    json["sliding_window"] = nlohmann::json::parse(window);
    return json.dump();
  };
  const Exported exported(config("null").c_str(), tiny_llama("F32"), GgmlType::f32);
  const GgufModel model(exported.file());
  EXPECT_EQ(model.config().architecture, "LlamaForCausalLM");
  expect_same(FolderTensors(exported.path()), model);
  const std::string message = message_of([&] { Exported(config("8").c_str(), tiny_llama("F32"), GgmlType::f32); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "sliding window", message);
}

TEST(Gguf, NarrowTypesAndLlama3Scaling) {
  std::string config = kTinyLlama;
  config.insert(config.rfind('}'), R"(,"rope_theta":5e9,"rope_scaling":{"rope_type":"llama3","factor":32.0,
    "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})");
  const Exported exported(config.c_str(), tiny_llama("BF16"), GgmlType::bf16);
  const GgufModel model(exported.file());
  expect_same(FolderTensors(exported.path()), model);
  EXPECT_EQ(model.config().spec.rope_scaling.kind, RopeScalingKind::llama3);
  EXPECT_EQ(model.config().spec.rope_scaling.factor, 32);
  // Rows of 16 values cannot form blocks of 32, so they stay F16.
  const Exported narrow(kTinyLlama, tiny_llama("F32"), GgmlType::q8_0);
  const GgufModel narrow_model(narrow.file());
  EXPECT_EQ(narrow_model.tensors()[*narrow_model.find("model.embed_tokens.weight")].type, "F16");
  EXPECT_EQ(narrow_model.tensors()[*narrow_model.find("model.norm.weight")].type, "F32");
}

TEST(Gguf, CarriesAByteLevelTokenizer) {
  const Exported exported(kTinyLlama, tiny_llama("F32"), GgmlType::f16);
  const GgufModel model(exported.file());
  const GgufTokenizer made = gguf_tokenizer(model.file());
  const auto ours = parse_tokenizer_json(made.json, "made"),
             original = parse_tokenizer_json(kByteTokenizer, "original");
  for (const char* text : {"abc abcab a11<|end|>cab", "", "1"})
    EXPECT_EQ(ours->encode(text).ids, original->encode(text).ids);
  EXPECT_EQ(ours->decode(ours->encode("abc a<|end|>").ids), "abc a<|end|>");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "{{ x }}", made.config_json);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, R"("eos_token": "<|end|>")", made.config_json);
}

// Builds files by hand that no exporter writes.
class Bytes {
 public:
  template <class T>
  Bytes& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& text(std::string_view value) {
    add<uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  Bytes& texts(std::string_view key, const std::vector<std::string>& values) {
    text(key).add<uint32_t>(9).add<uint32_t>(8).add<uint64_t>(values.size());
    for (const std::string& value : values) text(value);
    return *this;
  }
  std::string bytes_ = "GGUF";
};

GgufFile open(const std::string& bytes) { return {std::as_bytes(std::span(bytes)), "f.gguf"}; }

TEST(Gguf, ReadsSentencePiecesByScore) {
  Bytes file;
  file.add<uint32_t>(3).add<uint64_t>(0).add<uint64_t>(5);
  file.text("tokenizer.ggml.model").add<uint32_t>(8).text("llama");
  const std::vector<std::string> tokens = {"<unk>", "<s>", "▁", "a", "b", "c", "ab", "bc", "▁a", "<0xC3>", "<0xA4>"};
  const std::vector<float> scores = {0, 0, -9, -9, -9, -9, -3, -2, -5, 0, 0};
  const std::vector<int32_t> types = {2, 3, 1, 1, 1, 1, 1, 1, 1, 6, 6};
  file.texts("tokenizer.ggml.tokens", tokens);
  file.text("tokenizer.ggml.scores").add<uint32_t>(9).add<uint32_t>(6).add<uint64_t>(scores.size());
  for (const float score : scores) file.add(score);
  file.text("tokenizer.ggml.token_type").add<uint32_t>(9).add<uint32_t>(5).add<uint64_t>(types.size());
  for (const int32_t type : types) file.add(type);
  file.text("tokenizer.ggml.unknown_token_id").add<uint32_t>(4).add<uint32_t>(0);
  const auto tokenizer = parse_tokenizer_json(gguf_tokenizer(open(file.bytes_)).json, "made");
  // "▁abc": bc has the best score, followed by ▁a.
  EXPECT_EQ(tokenizer->encode("abc").ids, (std::vector<TokenId>{8, 7}));
  EXPECT_EQ(tokenizer->encode("ä").ids, (std::vector<TokenId>{2, 9, 10}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("abc ä").ids), "abc ä");
}

// Hugging Face's libraries number added tokens that are missing in the vocabulary from its size on, and ignore their
// ids.
TEST(Gguf, AddedTokensKeepTheirIdsForEveryReader) {
  Bytes file;
  file.add<uint32_t>(3).add<uint64_t>(0).add<uint64_t>(5);
  file.text("tokenizer.ggml.model").add<uint32_t>(8).text("gpt2");
  file.text("tokenizer.ggml.pre").add<uint32_t>(8).text("gpt-2");
  file.texts("tokenizer.ggml.tokens", {"<|end|>", "a", "<|pad|>", "b", "ab", "<|more|>", "<|last|>"});
  file.texts("tokenizer.ggml.merges", {"a b"});
  const std::vector<int32_t> types = {3, 1, 3, 1, 1, 3, 4};
  file.text("tokenizer.ggml.token_type").add<uint32_t>(9).add<uint32_t>(5).add<uint64_t>(types.size());
  for (const int32_t type : types) file.add(type);
  const std::string made = gguf_tokenizer(open(file.bytes_)).json;
  const nlohmann::json vocab = nlohmann::json::parse(made)["model"]["vocab"];
  EXPECT_EQ(vocab, (nlohmann::json{{"<|end|>", 0}, {"a", 1}, {"<|pad|>", 2}, {"b", 3}, {"ab", 4}}));
  const auto tokenizer = parse_tokenizer_json(made, "made");
  EXPECT_EQ(tokenizer->encode("ab<|end|>a<|last|>").ids, (std::vector<TokenId>{4, 0, 1, 6}));
}

TEST(Gguf, RefusesTypesThatNoTokenHas) {
  for (const float type : {7.0f, -1.0f, 3e9f, std::nanf("")}) {
    Bytes file;
    file.add<uint32_t>(3).add<uint64_t>(0).add<uint64_t>(3);
    file.text("tokenizer.ggml.model").add<uint32_t>(8).text("gpt2");
    file.texts("tokenizer.ggml.tokens", {"a"});
    file.text("tokenizer.ggml.token_type").add<uint32_t>(9).add<uint32_t>(6).add<uint64_t>(1).add(type);
    const std::string message = message_of([&] { gguf_tokenizer(open(file.bytes_)); });
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "token 0 is of type", message);
  }
}

TEST(Gguf, RefusesDamagedFiles) {
  const auto refusal = [](const std::string& bytes) { return message_of([&] { open(bytes); }); };
  const auto expect = [&](const std::string& fragment, const std::string& bytes) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, fragment, refusal(bytes));
  };
  expect("not a GGUF file", "");
  expect("not a GGUF file", "GGML");
  expect("version 1", Bytes().add<uint32_t>(1).add<uint64_t>(0).add<uint64_t>(0).bytes_);
  expect("too many", Bytes().add<uint32_t>(3).add<uint64_t>(UINT64_MAX).add<uint64_t>(0).bytes_);
  expect("ends within", Bytes().add<uint32_t>(3).add<uint64_t>(0).add<uint64_t>(1).add<uint64_t>(UINT64_MAX).bytes_);
  const auto one_tensor = [](uint64_t rows, uint64_t offset, uint32_t type, size_t data) {
    Bytes file;
    file.add<uint32_t>(3).add<uint64_t>(2).add<uint64_t>(0);
    for (const auto& [name, at] : {std::pair{"a", uint64_t{0}}, {"b", offset}}) {
      file.text(name).add<uint32_t>(2).add<uint64_t>(32).add(rows).add(type).add(at);
    }
    file.bytes_.resize((file.bytes_.size() + 31) / 32 * 32 + data);
    return file.bytes_;
  };
  EXPECT_EQ(refusal(one_tensor(1, 128, 0, 256)), "no error");
  expect("ends within it", one_tensor(1, 128, 0, 255));
  expect("overlaps", one_tensor(1, 96, 0, 256));
  expect("not aligned", one_tensor(1, 130, 0, 512));
  expect("ends within it", one_tensor(uint64_t{1} << 40, 128, 0, 512));
  expect("a dimension of", one_tensor(0, 128, 0, 512));
  expect("in blocks of 256", one_tensor(1, 128, 14, 512));
  // Every shorter file is refused, and none is read past its end, as the sanitizers verify.
  const Exported exported(kTinyLlama, tiny_llama("F32"), GgmlType::f16);
  const std::string whole = exported.read("out.gguf");
  for (size_t size = 0; size < whole.size(); size += 97) {
    const std::string cut = whole.substr(0, size);
    EXPECT_NE(message_of([&] { GgufModel model(std::as_bytes(std::span(cut)), "f.gguf"); }), "no error") << size;
  }
}

}  // namespace
}  // namespace gradmill::test
