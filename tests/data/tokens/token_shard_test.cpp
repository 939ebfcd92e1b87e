// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_shard.h"

#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core/crc32c.h"
#include "support/errors.h"
#include "data/tokens/shard_fixture.h"
#include "files/faulty_file_ops.h"

namespace gradmill::test {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<int32_t> read_all(const TokenShard& shard) {
  std::vector<int32_t> tokens(static_cast<size_t>(shard.num_tokens()));
  shard.read(0, tokens);
  return tokens;
}

TEST(TokenShard, GivesBackWhatWasWritten) {
  // Besides the small ones, several blocks of either width that end exactly at, before and after the end of a block.
  for (const VocabId& vocab : {VocabId{5, 1 << 16}, VocabId{6, (1 << 16) + 1}, VocabId{7, 2}}) {
    for (int64_t size : {0, 1, 3, 4, 65535, 65536, 131072, 300001}) {
      const TemporaryFolder folder;
      std::vector<int32_t> tokens(static_cast<size_t>(size));
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>((i * 2654435761u) % static_cast<uint64_t>(vocab.size));
      }
      const std::span<const int32_t> all(tokens);
      TokenShardWriter writer(folder.path() / "s", vocab);
      writer.add_document(all.first(tokens.size() / 3));
      writer.add_document({});
      writer.add_document(all.subspan(tokens.size() / 3));
      EXPECT_FALSE(std::filesystem::exists(folder.path() / "s"));
      writer.finish();
      EXPECT_EQ(folder.num_entries(), 1);
      const TokenShard shard(folder.path() / "s");
      EXPECT_EQ(shard.vocab(), vocab);
      ASSERT_EQ(shard.num_tokens(), size);
      ASSERT_EQ(shard.num_documents(), 3);
      EXPECT_EQ(shard.document_end(0), size / 3);
      EXPECT_EQ(shard.document_end(1), size / 3);
      EXPECT_EQ(shard.document_end(2), size);
      EXPECT_EQ(read_all(shard), tokens);
      shard.verify();
    }
  }
}

// Learned and unlearned tokens in runs, with a document without a mask between.
std::vector<uint8_t> some_learned(size_t size) {
  std::vector<uint8_t> learned(size);
  for (size_t i = 0; i < size; ++i) learned[i] = i * i / 50 % 3 == 0 ? 1 : 0;
  return learned;
}

std::filesystem::path write_masked(const std::filesystem::path& path, const std::vector<size_t>& sizes) {
  TokenShardWriter writer(path, kWideVocab, LearnedPlane::present);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<uint8_t> learned = i % 3 == 1 ? std::vector<uint8_t>() : some_learned(sizes[i]);
    writer.add_document(std::vector<int32_t>(sizes[i], 5), learned);
  }
  writer.finish();
  return path;
}

TEST(TokenShard, KeepsWhatIsLearned) {
  const TemporaryFolder folder;
  const std::vector<size_t> sizes = {700, 100, 0, 1300, 65, 3000000};  // the plane has more than one block
  std::vector<int32_t> expected;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (uint8_t learned : some_learned(sizes[i])) expected.push_back(i % 3 == 1 || learned != 0 ? 5 : -100);
  }
  const TokenShard shard(write_masked(folder.path() / "s", sizes));
  EXPECT_TRUE(shard.has_learned_plane());
  ASSERT_EQ(shard.num_tokens(), std::ssize(expected));
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 64}, {0, 65}, {1, 63}, {63, 1}, {63, 2}, {64, 0}, {690, 300}, {5, 2000}, {0, std::ssize(expected)}}) {
    std::vector<int32_t> ids(static_cast<size_t>(count), 5);
    shard.hide_unlearned(first, ids, -100);
    const std::vector<int32_t> part(expected.begin() + first, expected.begin() + first + count);
    EXPECT_EQ(ids, part) << first << " " << count;
    EXPECT_EQ(shard.count_learned(first, count), std::ranges::count(part, 5)) << first << " " << count;
  }
  shard.verify();
  // Without the plane the file has format version 1, which older programs can read.
  ShardHeader header;
  std::memcpy(&header, bytes_of(write_shards(folder, {{5}}).front()).data(), sizeof(header));
  EXPECT_EQ(header.version, 1u);
  EXPECT_EQ(header.flags, 0u);
  const TokenShard plain(folder.path() / "shard-0.tokens");
  EXPECT_FALSE(plain.has_learned_plane());
  EXPECT_EQ(plain.count_learned(1, 3), 3);
}

// Whatever was read of it before, and whichever of its parts is asked for.
TEST(TokenShard, AFileThatBecomesShorterWhileItIsUsedIsAnError) {
  const TemporaryFolder folder;
  const std::vector<size_t> sizes(20, 10000);
  const auto path = write_masked(folder.path() / "s", sizes);
  std::vector<int32_t> tokens(1000);
  const auto expect_lost = [&](const auto& use, bool verified) {
    const auto copy = folder.write("copy", bytes_of(path));
    const TokenShard shard(copy);
    if (verified) shard.verify();
    std::filesystem::resize_file(copy, 0);
    for (int round = 0; round < 2; ++round) {
      expect_error([&] { use(shard); }, ExitCode::data, {"copy: it has 0 bytes left of the", "restore the file"});
    }
  };
  for (bool verified : {false, true}) {
    expect_lost([&](const TokenShard& shard) { shard.read(150000, tokens); }, verified);
    expect_lost([&](const TokenShard& shard) { shard.hide_unlearned(150000, tokens, -1); }, verified);
    expect_lost([&](const TokenShard& shard) { shard.count_learned(150000, 1000); }, verified);
    expect_lost([&](const TokenShard& shard) { tokens[0] = static_cast<int32_t>(shard.document_end(7)); }, verified);
  }
  expect_lost([&](const TokenShard& shard) { shard.verify(); }, false);
}

class DamagedShardTest : public testing::TestWithParam<bool> {
 protected:
  std::string good(const TemporaryFolder& folder) const {
    if (!GetParam()) return bytes_of(write_shards(folder, {{5, 0, 7, 20}}).front());
    return bytes_of(write_masked(folder.path() / "masked", {5, 0, 7, 20}));
  }
};
INSTANTIATE_TEST_SUITE_P(Planes, DamagedShardTest, testing::Bool());

TEST_P(DamagedShardTest, EveryDamagedByteAndEveryCutIsFound) {
  const TemporaryFolder folder;
  const std::string good = this->good(folder);
  const auto expect_refused = [&](const std::string& bytes, size_t at) {
    const auto path = folder.write("damaged", bytes);
    expect_error([&] { TokenShard(path).verify(); }, ExitCode::data, {"damaged: "});
    if (testing::Test::HasFailure()) FAIL() << "at byte " << at;
  };
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit : {0, 3, 7}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      expect_refused(bytes, at);
    }
    expect_refused(good.substr(0, at), at);
  }
  expect_refused(good + '\0', good.size());
}

TEST(TokenShard, NamesTheDamagedBlockAndReadsTheOthers) {
  const TemporaryFolder folder;
  const auto path = write_shards(folder, {{100000, 100000}}).front();  // four blocks of 65536 ids, including the index
  std::string bytes = bytes_of(path);
  bytes[64 + kShardBlockBytes + 17] ^= 1;
  const TokenShard shard(folder.write("damaged", bytes));
  std::vector<int32_t> tokens(1000);
  shard.read(64536, tokens);
  EXPECT_EQ(tokens[999], value_of(65535));
  for (int round = 0; round < 2; ++round) {
    expect_error([&] { shard.read(65500, tokens); }, ExitCode::data,
                 {"damaged: bytes 262208 to 524351 (tokens 65536 to 131071)"});
  }
  shard.read(131072, tokens);
  EXPECT_EQ(tokens[0], value_of(131072));
}

// Changes the trailer or the header and updates its checksum.
template <class Part>
std::string forged(std::string bytes, size_t at, auto&& change) {
  Part part;
  std::memcpy(&part, bytes.data() + at, sizeof(part));
  change(part);
  part.crc = crc32c(std::as_bytes(std::span(&part, 1)).first(offsetof(Part, crc)));
  std::memcpy(bytes.data() + at, &part, sizeof(part));
  return bytes;
}

TEST_P(DamagedShardTest, TrustsNoCount) {
  const TemporaryFolder folder;
  const std::string good = this->good(folder);
  const auto expect_refused = [&](const std::string& bytes) {
    expect_error([&] { TokenShard shard(folder.write("forged", bytes)); }, ExitCode::data, {"forged: "});
  };
  const size_t trailer = good.size() - sizeof(ShardTrailer);
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{31}, uint64_t{200}, uint64_t{1} << 40, uint64_t{1} << 62,
                         ~uint64_t{0}, ~uint64_t{0} / 4}) {
    expect_refused(forged<ShardTrailer>(good, trailer, [&](ShardTrailer& part) { part.num_tokens = count; }));
    expect_refused(forged<ShardTrailer>(good, trailer, [&](ShardTrailer& part) { part.num_documents = count; }));
  }
  for (uint32_t width : {0u, 1u, 2u, 3u, 8u, ~0u}) {
    expect_refused(forged<ShardHeader>(good, 0, [&](ShardHeader& part) { part.token_bytes = width; }));
  }
  for (uint32_t version : {0u, 3u, ~0u}) {
    expect_refused(forged<ShardHeader>(good, 0, [&](ShardHeader& part) { part.version = version; }));
  }
  for (uint32_t flags : {2u, GetParam() ? 0u : 1u}) {
    expect_refused(forged<ShardHeader>(good, 0, [&](ShardHeader& part) { part.flags = flags; }));
  }
  for (uint64_t size : {uint64_t{0}, uint64_t{1} << 31, ~uint64_t{0}}) {
    expect_refused(forged<ShardHeader>(good, 0, [&](ShardHeader& part) { part.vocab_size = size; }));
  }
  const auto path =
      folder.write("forged", forged<ShardHeader>(good, 0, [](ShardHeader& part) { part.vocab_size = 5; }));
  expect_error([&] { TokenShard(path).verify(); }, ExitCode::data,
               {GetParam() ? "token 0 is not below" : "token 4 is not below", "size, 5"});
}

TEST(TokenShard, RefusesWhatIsNoShard) {
  const TemporaryFolder folder;
  expect_error([&] { TokenShard(folder.path() / "none"); }, ExitCode::data, {"none", "cannot open"});
  expect_error([&] { TokenShard(folder.path()); }, ExitCode::data, {"not a regular file"});
  expect_error([&] { TokenShard(folder.write("text", std::string(500, 'x'))); }, ExitCode::data, {"not a token shard"});
  expect_error([&] { TokenShard(folder.write("empty", "")); }, ExitCode::data, {"not a token shard"});
}

TEST(TokenShardWriter, RefusesIdsOutsideTheVocabulary) {
  const TemporaryFolder folder;
  TokenShardWriter writer(folder.path() / "s", {1, 10});
  writer.add_document(std::vector<int32_t>{1, 9});
  const auto add = [&](int32_t id) { writer.add_document(std::vector<int32_t>{1, 2, id}); };
  expect_error([&] { add(10); }, ExitCode::data, {"token 2 of document 1 is 10", "has 10"});
  expect_error([&] { add(-1); }, ExitCode::data, {"is -1"});
  EXPECT_EQ(writer.num_documents(), 1);
  writer.finish();
  EXPECT_EQ(read_all(TokenShard(folder.path() / "s")), (std::vector<int32_t>{1, 9}));
  expect_error([&] { TokenShardWriter(folder.path() / "t", {1, 0}); }, ExitCode::usage, {"size is 0"});
}

TEST(TokenShardWriter, AFailureAtAnyCallLeavesTheOldShard) {
  const TemporaryFolder folder;
  const auto path = write_shards(folder, {{5, 7}}).front();
  const std::string old = bytes_of(path);
  const std::vector<int32_t> document(100000, 3);
  const auto write = [&](FileOps& ops) {
    TokenShardWriter writer(path, kWideVocab, ops);
    writer.add_document(document);
    writer.finish();
  };
  FaultyFileOps counting(real_file_ops());
  write(counting);
  ASSERT_EQ(TokenShard(path).num_tokens(), 100000);
  const int64_t calls = counting.num_calls();
  ASSERT_GE(calls, 7);
  for (int64_t call = 1; call < calls; ++call) {  // the last call syncs the folder, when the new shard exists
    folder.write(path.filename(), old);
    FaultyFileOps faulty(real_file_ops(), {Fault::Kind::fail, call, EIO});
    EXPECT_THROW(write(faulty), FileError) << call;
    EXPECT_EQ(bytes_of(path), old) << call;
    EXPECT_EQ(folder.num_entries(), 1) << call;
  }
}

TEST(ShardSet, IsOneSpace) {
  const TemporaryFolder folder;
  const std::vector<std::vector<int64_t>> lengths = {{}, {3, 0, 4}, {}, {0}, {10}, {1, 1, 1}, {}};
  const ShardSet set(write_shards(folder, lengths));
  EXPECT_EQ(set.num_tokens(), 20);
  ASSERT_EQ(set.num_documents(), 8);
  std::vector<int64_t> ends;
  for (int64_t document = 0; document < 8; ++document) ends.push_back(set.document_end(document));
  EXPECT_EQ(ends, (std::vector<int64_t>{3, 3, 7, 7, 17, 18, 19, 20}));
  for (int64_t first = 0; first <= 20; ++first) {
    for (int64_t last = first; last <= 20; ++last) {
      std::vector<int32_t> tokens(static_cast<size_t>(last - first)), expected(tokens.size());
      std::iota(expected.begin(), expected.end(), value_of(first));
      set.read(first, tokens);
      ASSERT_EQ(tokens, expected);
    }
  }
  set.verify();
}

TEST(ShardSet, RefusesNoneAndMixedVocabularies) {
  const TemporaryFolder folder, other;
  std::vector<std::filesystem::path> paths = write_shards(folder, {{3}});
  paths.push_back(write_shards(other, {{3}}, {78, 1 << 20}).front());
  expect_error([&] { ShardSet set(paths); }, ExitCode::data, {"different vocabularies", paths[1].string()});
  expect_error([&] { ShardSet set({}); }, ExitCode::data, {"no token shard"});
}

}  // namespace
}  // namespace gradmill::test
