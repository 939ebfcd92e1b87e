// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "core/error.h"
#include "support/errors.h"
#include "support/goldens.h"

namespace gradmill::test {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, dtype, shape, offsets);
}

class SafeTensorsTest : public testing::Test {
 protected:
  ~SafeTensorsTest() override { std::filesystem::remove(path_); }

  SafeTensors open(const std::string& bytes) {
    std::filesystem::remove(path_);  // truncating an existing file waits for the disk on some file systems
    std::ofstream(path_, std::ios::binary) << bytes;
    return SafeTensors(path_);
  }

  // Returns the message, after checking that it is a data error about this file.
  std::string refusal(const std::string& bytes) {
    try {
      open(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_TRUE(std::string(error.what()).starts_with(path_.string())) << error.what();
      return error.what();
    }
    return "accepted";
  }
  void expect_refusal(const std::string& header, const std::string& data, const std::string& fragment) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, fragment, refusal(file_of(header, data))) << header.substr(0, 200);
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("gradmill_{}.safetensors", ::getpid());
};

const std::string kGoodHeader = "{" + entry("w", "F32", "2,3", "0,24") + "," + entry("ids", "I32", "2", "24,32") + "," +
                                entry("b", "BF16", "2,1,1", "32,36") + "," + entry("h", "F16", "1", "36,38") + "," +
                                entry("e4", "F8_E4M3", "1", "38,39") + "," + entry("e5", "F8_E5M2", "1", "39,40") +
                                "," + entry("scalar", "F32", "", "40,44") + "," +
                                entry("empty", "F32", "0,5", "44,44") + "," + entry("i8", "I8", "1,2,1,2", "44,48") +
                                R"(,"__metadata__":{"format":"pt","note":"a \"b\""}}   )";

std::string good_file() {
  return file_of(kGoodHeader, bytes_of<float>({1, 2, 3, 4, 5, 6}) + bytes_of<int32_t>({-100, 7}) +
                                  bytes_of<Bf16>({Bf16(0.5f), Bf16(-2.0f)}) + bytes_of<Fp16>({Fp16(1.5f)}) +
                                  bytes_of<Fp8E4M3>({Fp8E4M3(2.0f)}) + bytes_of<Fp8E5M2>({Fp8E5M2(4.0f)}) +
                                  bytes_of<float>({42}) + bytes_of<int8_t>({1, -1, 2, -2}));
}

TEST_F(SafeTensorsTest, ReadsEveryDType) {
  const SafeTensors file = open(good_file());
  const std::vector<std::string> names{"b", "e4", "e5", "empty", "h", "i8", "ids", "scalar", "w"};
  EXPECT_EQ(file.names(), names);
  const TensorView w = file.at("w");
  EXPECT_EQ(w.shape, (Shape{2, 3}));
  EXPECT_TRUE(w.contiguous());
  EXPECT_EQ(w.row<float>(1)[2], 6.0f);
  EXPECT_EQ(file.at("ids").ptr<int32_t>()[0], -100);
  EXPECT_EQ(file.at("b").shape, (Shape{2, 1, 1}));
  EXPECT_EQ(static_cast<float>(file.at("b").ptr<Bf16>()[1]), -2.0f);
  EXPECT_EQ(static_cast<float>(*file.at("h").ptr<Fp16>()), 1.5f);
  EXPECT_EQ(static_cast<float>(*file.at("e4").ptr<Fp8E4M3>()), 2.0f);
  EXPECT_EQ(static_cast<float>(*file.at("e5").ptr<Fp8E5M2>()), 4.0f);
  EXPECT_EQ(file.at("scalar").shape, (Shape{1}));
  EXPECT_EQ(*file.at("scalar").ptr<float>(), 42.0f);
  EXPECT_EQ(file.at("empty").shape, (Shape{0, 5}));
  EXPECT_EQ(file.at("i8").ptr<int8_t>()[3], -2);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("note"), "a \"b\"");
}

TEST_F(SafeTensorsTest, ReadsAFileWithoutTensors) {
  const SafeTensors file = open(file_of("{}", ""));
  EXPECT_TRUE(file.names().empty());
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafeTensorsTest, ViewsOutliveAMove) {
  SafeTensors first = open(good_file());
  const TensorView w = first.at("w");
  const SafeTensors second = std::move(first);
  EXPECT_EQ(w.data, second.at("w").data);
  EXPECT_EQ(w.ptr<float>()[5], 6.0f);
}

TEST_F(SafeTensorsTest, AlignsTensorsAtOddAddresses) {
  std::string header = "{" + entry("odd", "I8", "1", "0,1") + "," + entry("x", "F32", "2", "1,9") + "}";
  for (int padding = 0; padding < 4; ++padding, header += ' ') {
    const SafeTensors file = open(file_of(header, "\x05" + bytes_of<float>({1.25f, -8})));
    const TensorView x = file.at("x");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data) % alignof(float), 0u);
    EXPECT_EQ(x.ptr<float>()[0], 1.25f);
    EXPECT_EQ(x.ptr<float>()[1], -8.0f);
    EXPECT_EQ(*file.at("odd").ptr<int8_t>(), 5);
  }
}

TEST_F(SafeTensorsTest, NamesWhatItCannotGive) {
  const std::string dims = "1,1,1,1,1";
  const SafeTensors file =
      open(file_of("{" + entry("position_ids", "I64", "1", "0,8") + "," + entry("deep", "F32", dims, "8,12") + "," +
                       entry("x", "F32", "1", "12,16") + "," + entry("half", "F4", "2", "16,17") + "}",
                   std::string(17, '\0')));
  EXPECT_TRUE(file.contains("position_ids"));
  EXPECT_FALSE(file.contains("position_id"));
  EXPECT_EQ(*file.at("x").ptr<float>(), 0.0f);
  const auto message = [&](std::string_view name) -> std::string {
    try {
      file.at(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      return error.what();
    }
    return "given";
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "'position_ids' has dtype I64", message("position_ids"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "'half' has dtype F4", message("half"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "'deep' has 5 dimensions", message("deep"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no tensor 'model.norm.weight'", message("model.norm.weight"));
}

TEST_F(SafeTensorsTest, RefusesEveryTruncationAndAnyExtraByte) {
  const std::string good = good_file();
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(refusal(good.substr(0, size)), "accepted") << size;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "1 bytes after the last tensor", refusal(good + "x"));
}

TEST_F(SafeTensorsTest, RefusesHeaderSizesThatCannotBe) {
  const auto with_size = [](uint64_t size) {
    std::string bytes = good_file();
    std::memcpy(bytes.data(), &size, sizeof size);
    return bytes;
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "too short", refusal("1234567"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "ends within its header", refusal(with_size(100'000'000)));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the format allows", refusal(with_size(100'000'001)));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the format allows", refusal(with_size(~uint64_t{0})));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "does not start with '{'", refusal(with_size(0)));
}

TEST_F(SafeTensorsTest, RefusesBadJson) {
  expect_refusal(R"({"a":)", "", "not valid JSON");
  expect_refusal("{} x", "", "not valid JSON");
  expect_refusal(std::string("{}\0x", 4), "", "not valid JSON");
  expect_refusal("{\"\xff\":1}", "", "not valid JSON");
  expect_refusal(R"({"a":1e999})", "", "not valid JSON");
  expect_refusal(" {}", "", "does not start with '{'");
  expect_refusal("[]", "", "does not start with '{'");
  const std::string nested = std::string(63, '[') + std::string(63, ']');
  expect_refusal("{\"a\":" + nested + "}", "", "is not an object of dtype");
  expect_refusal("{\"a\":[" + nested + "]}", "", "nested deeper than 64 levels");
  expect_refusal("{\"a\":" + std::string(1'000'000, '['), "", "nested deeper than 64 levels");
}

TEST_F(SafeTensorsTest, RefusesDuplicateNames) {
  const std::string a = entry("a", "I8", "1", "0,1");
  expect_refusal("{" + a + "," + entry("a", "I8", "1", "1,2") + "}", "xy", "'a' appears twice");
  expect_refusal("{" + a + "," + entry("\\u0061", "I8", "1", "1,2") + "}", "xy", "'a' appears twice");
  expect_refusal(R"({"a":{"dtype":"I8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", "x", "'dtype' appears twice");
}

TEST_F(SafeTensorsTest, RefusesWrongLayouts) {
  const std::string eight(8, 'x');
  expect_refusal("{" + entry("a", "F32", "1", "0,4") + "," + entry("b", "F32", "1", "3,7") + "}", eight,
                 "'b': overlaps");
  expect_refusal("{" + entry("a", "F32", "2", "0,8") + "," + entry("b", "F32", "1", "0,4") + "}", eight,
                 "'a': overlaps");
  expect_refusal("{" + entry("a", "I8", "3", "0,3") + "," + entry("b", "F32", "1", "4,8") + "}", eight,
                 "'b': leaves a hole");
  expect_refusal("{" + entry("a", "F32", "1", "4,8") + "}", eight, "'a': leaves a hole");
  expect_refusal("{" + entry("a", "F32", "1", "0,4") + "}", eight, "4 bytes after the last tensor");
  expect_refusal("{" + entry("a", "F32", "1", "8,12") + "}", eight, "'a': its bytes [8, 12) do not lie in the 8 bytes");
  expect_refusal("{" + entry("a", "F32", "1", "4,0") + "}", eight, "'a': its bytes [4, 0)");
  expect_refusal("{" + entry("a", "F32", "3", "0,8") + "}", eight, "'a': 3 values of F32 do not take 8 bytes");
  expect_refusal("{" + entry("a", "F4", "15", "0,8") + "}", eight, "'a': 15 values of F4 do not take 8 bytes");
}

TEST_F(SafeTensorsTest, RefusesNumbersThatOverflow) {
  // 2^61 + 2 floats take 8 bytes modulo 2^64.
  expect_refusal("{" + entry("a", "F32", "2305843009213693954", "0,8") + "}", "12345678", "do not take 8 bytes");
  expect_refusal("{" + entry("a", "F32", "4294967296,4294967296", "0,0") + "}", "", "its shape is too large");
  expect_refusal("{" + entry("a", "F32", "0,4294967296,4294967296", "0,0") + "}", "", "its shape is too large");
  expect_refusal("{" + entry("a", "F32", "9223372036854775808", "0,0") + "}", "", "its shape is too large");
  expect_refusal("{" + entry("a", "F32", "18446744073709551616", "0,0") + "}", "", "a dimension is not a whole number");
  expect_refusal("{" + entry("a", "F32", "-1", "0,0") + "}", "", "a dimension is not a whole number");
  expect_refusal("{" + entry("a", "F32", "1.0", "0,4") + "}", "1234", "a dimension is not a whole number");
  expect_refusal("{" + entry("a", "F32", "1", "0,18446744073709551615") + "}", "1234", "do not lie in the 4 bytes");
}

TEST_F(SafeTensorsTest, RefusesWrongEntries) {
  expect_refusal(R"({"a":1})", "", "'a': its entry is not an object");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[]}})", "", "'a': its entry is not an object");
  expect_refusal(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":0}})", "1234",
                 "'a': its entry is not an object");
  expect_refusal(R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", "1234", "'a': dtype is not a string");
  expect_refusal("{" + entry("a", "F31", "1", "0,4") + "}", "1234", "'a': unknown dtype 'F31'");
  expect_refusal(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "1234", "'a': shape is not an array");
  expect_refusal("{" + entry("a", "F32", "1", "0,4,4") + "}", "1234", "'a': data_offsets is not a pair");
  expect_refusal(R"({"__metadata__":[]})", "", "__metadata__ is not an object");
  expect_refusal(R"({"__metadata__":{"k":1}})", "", "'k' is not a string");
  expect_refusal("{" + entry("line\\nbreak", "F31", "1", "0,4") + "}", "1234", "tensor 'line\\x0abreak'");
}

TEST_F(SafeTensorsTest, RefusesWhatIsNotAFile) {
  EXPECT_THROW(SafeTensors(path_ / "absent"), Error);
  EXPECT_THROW(SafeTensors(std::filesystem::temp_directory_path()), Error);
}

TEST_F(SafeTensorsTest, AFileThatBecomesShorterWhileItIsUsedIsAnError) {
  const std::vector<float> values(100000, 1.0f);
  const SafeTensors file = open(file_of("{" + entry("a", "F32", "100000", "0,400000") + "}", bytes_of(values)));
  std::vector<float> copy(values.size());
  const TensorView to(copy.data(), DType::fp32, {std::ssize(copy)});
  file.copy_to("a", to);
  EXPECT_EQ(copy, values);
  file.check();
  std::filesystem::resize_file(path_, 8192);
  expect_error([&] { file.copy_to("a", to); }, ExitCode::data, {path_.string(), "it has 8192 bytes left"});
  expect_error([&] { file.check(); }, ExitCode::data, {"restore the file"});
}

// Under the sanitizers this is a small fuzzer: a changed header is refused, or every view can be read to its end.
TEST_F(SafeTensorsTest, SurvivesChangedHeaders) {
  std::mt19937 random(1);
  const std::string good = good_file();
  const std::string letters = "0123456789{}[]\",:-eF\\";
  int num_refused = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::string bytes = good;
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      bytes[8 + random() % kGoodHeader.size()] = letters[random() % letters.size()];
    }
    try {
      const SafeTensors file = open(bytes);
      for (const std::string& name : file.names()) {
        const TensorView view = file.at(name);
        const auto* begin = static_cast<const unsigned char*>(view.data);
        EXPECT_GE(std::count(begin, begin + view.bytes(), 0), 0);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 500);
}

TEST(SafeTensorsGolden, ReadsWhatTheReferenceWrote) {
  const SafeTensors file(golden_path("gpt2"));
  const TensorView logits = file.at("logits"), targets = file.at("targets");
  EXPECT_EQ(logits.shape, (Shape{3, 11, 37}));
  EXPECT_EQ(file.metadata().at("family"), "gpt2");
  // The stored loss must follow from the stored logits.
  double sum = 0;
  int count = 0;
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const int32_t target = targets.ptr<int32_t>()[row];
    if (target < 0) continue;
    double total = 0;
    for (int64_t v = 0; v < logits.cols(); ++v) total += std::exp(double{logits.row<float>(row)[v]});
    sum += std::log(total) - logits.row<float>(row)[target];
    ++count;
  }
  EXPECT_NEAR(sum / count, *file.at("loss").ptr<float>(), 1e-6);
}

}  // namespace
}  // namespace gradmill::test
