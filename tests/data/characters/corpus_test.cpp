// SPDX-License-Identifier: Apache-2.0
#include "data/characters/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include "data/characters/char_vocab.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

// The files in the packed text, from the lines with their names.
std::vector<std::string> packed_files(const std::string& text) {
  std::vector<std::string> files;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("==> ") && line.ends_with(" <==")) files.push_back(line.substr(4, line.size() - 8));
  }
  return files;
}

TEST(Corpus, SelfIsThisRepository) {
  const Corpus corpus = load_corpus({});
  EXPECT_EQ(corpus.name, "self");
  EXPECT_EQ(corpus.origin, "built in");
  EXPECT_GT(CharVocab::from_text(corpus.text).size(), 90);
  const std::vector<std::string> files = packed_files(corpus.text);
  EXPECT_TRUE(std::ranges::is_sorted(files, std::ranges::less_equal())) << "out of order, or one packed twice";
  for (const char* file :
       {"CMakeLists.txt", "cmake/pack_self.cmake", "src/data/CMakeLists.txt", "src/data/characters/corpus.h",
        "src/data/characters/corpus.cpp", "tests/data/characters/corpus_test.cpp"}) {
    EXPECT_TRUE(std::ranges::binary_search(files, file)) << file;
  }
  for (const std::string& file : files) {
    EXPECT_FALSE(file.starts_with("build") || file.starts_with(".")) << file;
    EXPECT_EQ(file.find("goldens/"), std::string::npos) << file;
  }
}

TEST(Corpus, SelfHasTheBytesOfItsFiles) {
  // Characters that could go wrong in CMake: ; \; "quotes" ${variables} @ONLY@ [[brackets]] [=[ ]] \\ $ENV{HOME}
  const std::string here = load_corpus({.dataset = GRADMILL_SOURCE_DIR "/tests/data/characters/corpus_test.cpp"}).text;
  EXPECT_NE(load_corpus({}).text.find("==> tests/data/characters/corpus_test.cpp <==\n" + here), std::string::npos);
}

class CorpusFile : public testing::Test {
 protected:
  Corpus load(const fs::path& path, int64_t max_chars = 0) {
    return load_corpus({.dataset = path.string(), .max_chars = max_chars});
  }
  TemporaryFolder folder_;
};

TEST_F(CorpusFile, KeepsEveryByte) {
  const std::string text = "Zeile eins\r\nzwölf\tZeilen\n\n" + std::string(1, '\0') + "Ende ohne Umbruch";
  const fs::path path = folder_.write("texts/a b.txt", text);
  const Corpus corpus = load(path);
  EXPECT_EQ(corpus.text, text);
  EXPECT_EQ(corpus.name, "a b.txt");
  EXPECT_EQ(corpus.origin, path.string());
}

TEST_F(CorpusFile, ReadsMoreThanOneBuffer) {
  std::string text;
  while (text.size() < 300'000) text += "line " + std::to_string(text.size()) + "\n";
  EXPECT_EQ(load(folder_.write("long.txt", text)).text, text);
}

TEST_F(CorpusFile, ReadsAPipe) {
  const fs::path path = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string text(200'000, 'x');
  std::jthread writer([&] { std::ofstream(path) << text; });
  EXPECT_EQ(load(path).text, text);
}

TEST_F(CorpusFile, SkipsAByteOrderMark) {
  EXPECT_EQ(load(folder_.write("bom.txt", "\xef\xbb\xbfhello")).text, "hello");
  expect_error([&] { load(folder_.write("only_bom.txt", "\xef\xbb\xbf")); }, ExitCode::data, {"is empty"});
  expect_error([&] { load(folder_.write("bad.txt", "\xef\xbb\xbfhello\xff")); }, ExitCode::data, {"offset 8"});
}

TEST_F(CorpusFile, MaxCharsCountsCharacters) {
  const fs::path path = folder_.write("x.txt", "\xef\xbb\xbfäöü😀abc\xff");
  EXPECT_EQ(load(path, 1).text, "ä");
  EXPECT_EQ(load(path, 5).text, "äöü😀a");
  EXPECT_EQ(load(path, 7).text, "äöü😀abc");
  expect_error([&] { load(path, 8); }, ExitCode::data, {"offset 16"});
  EXPECT_EQ(load(folder_.write("y.txt", "abc"), std::numeric_limits<int64_t>::max()).text, "abc");
  EXPECT_EQ(load_corpus({.max_chars = 10}).text.size(), 10u);
}

TEST_F(CorpusFile, ErrorsSayWhatToDo) {
  expect_error([&] { load(folder_.path() / "nothing.txt"); }, ExitCode::data, {"nothing.txt", "self, shakespeare"});
  expect_error([&] { load("shakespear"); }, ExitCode::data, {"no data set or file 'shakespear'"});
  expect_error([&] { load(folder_.write("empty.txt", "")); }, ExitCode::data, {"empty.txt' is empty"});
  expect_error([&] { load(folder_.path()); }, ExitCode::data, {"is a folder", "text file"});
  expect_error([&] { load("/dev/zero"); }, ExitCode::data, {"is a device"});
  expect_error([&] { load(folder_.write("latin1.txt", "caf\xe9!")); }, ExitCode::data,
               {"UTF-8", "0xe9", "offset 3", "iconv"});
  expect_error([&] { load(folder_.write("cut.txt", "ab\xe2\x82")); }, ExitCode::data, {"offset 2"});
  expect_error([&] { load(folder_.write("x.txt", "x"), -1); }, ExitCode::usage, {"-1"});
  expect_error([] { load_corpus({.dataset = ""}); }, ExitCode::usage, {"no data set"});
  const fs::path secret = folder_.write("secret.txt", "x");
  ::chmod(secret.c_str(), 0);
  if (::geteuid() != 0) expect_error([&] { load(secret); }, ExitCode::data, {"secret.txt", "permission"});
}

}  // namespace
}  // namespace gradmill::test
