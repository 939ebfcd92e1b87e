// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_writer.h"

#include <cstring>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "checkpoint/store_fixture.h"
#include "core/crc32c.h"

namespace gradmill::test {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

class SafeTensorsWriterTest : public StoreTest {
 protected:
  FileRecord write(const std::vector<NamedTensor>& tensors, FileOps& ops = real_file_ops()) {
    std::filesystem::remove(path_);
    OutputFile file(ops, path_);
    write_safetensors(file, tensors);
    return file.finish();
  }

  std::filesystem::path path_ = run_ / "x.safetensors";
};

TEST_F(SafeTensorsWriterTest, AViewWithoutMemoryIsZeros) {
  constexpr int64_t kMany = 700'000;  // several blocks
  const std::vector<NamedTensor> tensors = {{"a", {nullptr, DType::fp32, {kMany}}},
                                            {"b", {nullptr, DType::bf16, {3, 5}}, true}};
  write(tensors);
  EXPECT_EQ(std::filesystem::file_size(path_), safetensors_bytes(tensors));
  const SafeTensors file(path_);
  EXPECT_EQ(file.at("b").shape, (Shape{5, 3}));
  const TensorView a = file.at("a");
  ASSERT_EQ(a.shape, Shape{kMany});
  for (int64_t i = 0; i < kMany; ++i) ASSERT_EQ(a.ptr<float>()[i], 0.0f) << i;
}

TEST_F(SafeTensorsWriterTest, WritesTheReferencesBytes) {
  std::vector<float> f{1, 2};
  std::vector<int32_t> i{3};
  std::vector<Bf16> b{Bf16(1.0f)};
  std::vector<int8_t> c{5};
  const FileRecord record = write({{"c", {c.data(), DType::int8, {1}}},
                                   {"b", {b.data(), DType::bf16, {1, 1}}},
                                   {"i", {i.data(), DType::int32, {1}}},
                                   {"z\"", {f.data() + 1, DType::fp32, {1}}},
                                   {"a", {f.data(), DType::fp32, {1}}},
                                   {"empty", {nullptr, DType::fp32, {0, 5}}}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
      R"("z\"":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"i":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
      R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[12,14]},)"
      R"("c":{"dtype":"I8","shape":[1],"data_offsets":[14,15]}})";
  const std::string file = read(path_);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_EQ(file.substr(8, header.size()), header);
  EXPECT_EQ(file.substr(8 + header.size(), header_bytes - header.size()),
            std::string(header_bytes - header.size(), ' '));
  EXPECT_LT(header_bytes - header.size(), 8u);
  const std::string data("\0\0\x80\x3f\0\0\0\x40\x03\0\0\0\x80\x3f\x05", 15);
  EXPECT_EQ(file.substr(8 + header_bytes), data);
  EXPECT_EQ(record, (FileRecord{file.size(), crc32c(std::as_bytes(std::span(file)))}));
}

TEST_F(SafeTensorsWriterTest, ReadsBackInEveryHeaderLength) {
  std::vector<float> f{1, -2, 3};
  for (size_t length = 1; length < 12; ++length) {
    const std::string name(length, 'n');
    const std::vector<NamedTensor> tensors{{name, {f.data(), DType::fp32, {3}}}};
    EXPECT_EQ(write(tensors).bytes, safetensors_bytes(tensors));
    EXPECT_EQ(safetensors_bytes(tensors), std::filesystem::file_size(path_));
    const SafeTensors file(path_);
    EXPECT_EQ(file.at(name).ptr<float>()[2], 3.0f);
    EXPECT_EQ(file.metadata().at("format"), "pt");
  }
  write({});
  EXPECT_TRUE(SafeTensors(path_).names().empty());
}

// Larger than a block, and with a system that writes only a few bytes at a time.
TEST_F(SafeTensorsWriterTest, WritesLargeTensorsInBlocks) {
  struct ShortWrites : FaultyFileOps {
    using FaultyFileOps::FaultyFileOps;
    size_t write(const FileHandle& file, std::span<const std::byte> bytes) override {
      return FaultyFileOps::write(file, bytes.first(std::min<size_t>(bytes.size(), 100'003)));
    }
  } ops(real_file_ops());
  std::vector<int32_t> values(700'001);
  std::iota(values.begin(), values.end(), 0);
  const FileRecord record = write({{"x", {values.data(), DType::int32, {700'001}}}}, ops);
  const std::string bytes = read(path_);
  EXPECT_EQ(record, (FileRecord{bytes.size(), crc32c(std::as_bytes(std::span(bytes)))}));
  const SafeTensors file(path_);
  EXPECT_EQ(file.at("x").shape, (Shape{700'001}));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), file.at("x").ptr<int32_t>()));
}

template <class T>
class TransposedTest : public SafeTensorsWriterTest {};
using Words = testing::Types<float, Bf16, int8_t>;
TYPED_TEST_SUITE(TransposedTest, Words);

TYPED_TEST(TransposedTest, TransposesBothWays) {
  constexpr int64_t kRows = 1000, kCols = 777;  // several blocks of each width when writing, and of fp32 when reading
  std::vector<TypeParam> matrix(kRows * kCols), back(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = TypeParam(static_cast<float>(i * 7 % 100));
  const Shape shape{kRows, kCols};
  const DType dtype = dtype_of<TypeParam>;
  this->write({{"t", {matrix.data(), dtype, shape}, true}, {"none", {nullptr, dtype, {0, 3}}, true}});
  const SafeTensors file(this->path_);
  const TensorView stored = file.at("t");
  ASSERT_EQ(stored.shape, (Shape{kCols, kRows}));
  EXPECT_EQ(file.at("none").shape, (Shape{3, 0}));
  const auto bits = [](const TypeParam& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (int64_t row = 0; row < kRows; row += 37) {
    for (int64_t col = 0; col < kCols; ++col) {
      ASSERT_EQ(bits(stored.row<TypeParam>(col)[row]), bits(matrix[static_cast<size_t>(row * kCols + col)]));
    }
  }
  file.copy_to("t", {back.data(), dtype, shape}, true);
  EXPECT_EQ(std::memcmp(back.data(), matrix.data(), matrix.size() * sizeof(TypeParam)), 0);
}

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(SafeTensorsWriterTest, CopiesWithoutKeepingTheFileInMemory) {
  constexpr int64_t kCount = 16 << 20;
  std::vector<int32_t> values(kCount, 7), back(kCount, 1);
  values.back() = 8;
  write({{"x", {values.data(), DType::int32, {kCount}}}});
  const SafeTensors file(path_);
  const size_t before = resident_bytes();
  file.copy_to("x", {back.data(), DType::int32, {kCount}});
  // ThreadSanitizer allocates four bytes for each byte that is touched.
  if (!kThreadSanitizer) {
    EXPECT_LT(resident_bytes(), before + (size_t{16} << 20));
  }
  EXPECT_EQ(back, values);
  EXPECT_EQ(file.at("x").ptr<int32_t>()[kCount - 1], 8) << "the view is still there";
}

TEST_F(SafeTensorsWriterTest, CopyRefusesAnotherShapeOrType) {
  std::vector<float> f(6), into(6);
  write({{"w", {f.data(), DType::fp32, {2, 3}}}});
  const SafeTensors file(path_);
  const auto message = [&](const TensorView& view, bool transposed) {
    return message_of([&] { file.copy_to("w", view, transposed); }, ExitCode::data);
  };
  EXPECT_NE(message({into.data(), DType::fp32, {3, 2}}, false).find("fp32 (2, 3); this model needs fp32 (3, 2)"),
            std::string::npos);
  EXPECT_NE(message({into.data(), DType::int32, {2, 3}}, false), "no error");
  EXPECT_NE(message({into.data(), DType::fp32, {2, 3}}, true), "no error");
  EXPECT_EQ(message({into.data(), DType::fp32, {3, 2}}, true), "no error");
}

TEST_F(SafeTensorsWriterTest, RefusesNamesThatComeTwice) {
  std::vector<float> f{1};
  const TensorView view(f.data(), DType::fp32, {1});
  EXPECT_NE(message_of(
                [&] {
                  write({{"a", view}, {"a", view}});
                },
                ExitCode::data)
                .find("named 'a'"),
            std::string::npos);
  EXPECT_NE(message_of([&] { write({{"__metadata__", view}}); }, ExitCode::data), "no error");
}

}  // namespace
}  // namespace gradmill::test
