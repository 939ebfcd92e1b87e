// SPDX-License-Identifier: Apache-2.0
// The data set that is searched for and, if requested, downloaded. No test uses the network: PATH leads to a fake curl.
#include <stdlib.h>
#include <sys/stat.h>

#include "data/characters/char_vocab.h"
#include "data/characters/corpus.h"
#include "files/download.h"
#include "support/errors.h"
#include "files/file_io.h"
#include "files/sha256.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUrl = "https://example.org/text";
constexpr std::string_view kText = "What's past is prologue.\n";

std::string hash_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

class ShakespeareTest : public testing::Test {
 protected:
  // Installs a program with this name as the only one in PATH. It runs in sh; its arguments are in $*.
  void install(const std::string& name, const std::string& script) {
    const fs::path path = bin_.write(name, "#!/bin/sh\n" + script + "\n");
    ::chmod(path.c_str(), 0755);
  }
  fs::path cache_file() const { return home_.path() / "gradmill/shakespeare/input.txt"; }

  TemporaryFolder bin_, home_, data_;
  ScopedEnv path_{"PATH", bin_.path().string()};
  ScopedEnv cache_{"XDG_CACHE_HOME", home_.path().string()};
  ScopedEnv given_{"GRADMILL_DATA", data_.path().string()};
};

TEST_F(ShakespeareTest, DownloadKeepsTheRightFile) {
  install("curl",
          fmt::format("case \"$*\" in *{}) printf '%s\\n' \"What's past is prologue.\";; *) exit 3;; esac", kUrl));
  EXPECT_EQ(download_file(kUrl, home_.path() / "a/b/text.txt", hash_of(kText)), kText);
  EXPECT_EQ(read_bytes(home_.path() / "a/b/text.txt", kWholeFile), kText);
  EXPECT_EQ(home_.num_entries(), 3);
  // Also over an existing file.
  home_.write("a/b/text.txt", "old");
  download_file(kUrl, home_.path() / "a/b/text.txt", hash_of(kText));
  EXPECT_EQ(read_bytes(home_.path() / "a/b/text.txt", kWholeFile), kText);
  EXPECT_EQ(home_.num_entries(), 3);
}

TEST_F(ShakespeareTest, WgetIsTheSecondChoice) {
  install("wget", "printf '%s\\n' \"What's past is prologue.\"");
  EXPECT_EQ(download_file(kUrl, home_.path() / "text.txt", hash_of(kText)), kText);
}

TEST_F(ShakespeareTest, AWrongHashLeavesNothing) {
  install("curl", "echo not the text");
  expect_error([&] { load_corpus({.dataset = "shakespeare", .download = true}); }, ExitCode::data,
               {hash_of("not the text\n"), "86c4e6aa", cache_file().string()});
  EXPECT_EQ(home_.num_entries(), 0);
}

TEST_F(ShakespeareTest, AFailureLeavesNothingAndSaysWhy) {
  install("curl", "echo half of it; echo 'curl: (6) Could not resolve host' >&2; exit 6");
  const CorpusOptions options{.dataset = "shakespeare", .download = true};
  expect_error([&] { load_corpus(options); }, ExitCode::data,
               {"tinyshakespeare", "(6) Could not resolve host", "network"});
  EXPECT_EQ(home_.num_entries(), 0);
  install("curl", "kill -9 $$");
  expect_error([&] { load_corpus(options); }, ExitCode::data, {"curl failed"});
  EXPECT_EQ(home_.num_entries(), 0);
}

TEST_F(ShakespeareTest, NoToolIsSaid) {
  expect_error([] { load_corpus({.dataset = "shakespeare", .download = true}); }, ExitCode::data,
               {"neither curl nor wget"});
  EXPECT_EQ(home_.num_entries(), 0);
}

TEST_F(ShakespeareTest, AFolderThatCannotBeWrittenLeavesNothing) {
  install("curl", "printf '%s\\n' \"What's past is prologue.\"");
  home_.write("file", "");
  expect_error([&] { download_file(kUrl, home_.path() / "file/text.txt", hash_of(kText)); }, ExitCode::failure,
               {"file: "});
  fs::create_directory(home_.path() / "folder");
  home_.write("folder/inside", "");
  expect_error([&] { download_file(kUrl, home_.path() / "folder", hash_of(kText)); }, ExitCode::usage, {"folder'"});
  EXPECT_EQ(home_.num_entries(), 3);
}

TEST_F(ShakespeareTest, NoNetworkUnlessAsked) {
  install("curl", "echo used > " + (bin_.path() / "used").string());
  expect_error(
      [] { load_corpus({.dataset = "shakespeare"}); }, ExitCode::data,
      {(data_.path() / "shakespeare/input.txt").string(), cache_file().string(), "--download", "GRADMILL_DATA"});
  EXPECT_FALSE(fs::exists(bin_.path() / "used"));
}

TEST_F(ShakespeareTest, WithoutAnyFolderSaysSo) {
  const ScopedEnv no_data("GRADMILL_DATA", std::nullopt), no_cache("XDG_CACHE_HOME", "relative"),
      no_home("HOME", std::nullopt);
  expect_error([] { load_corpus({.dataset = "shakespeare"}); }, ExitCode::data, {"--download", "GRADMILL_DATA"});
  expect_error([] { load_corpus({.dataset = "shakespeare", .download = true}); }, ExitCode::data, {"set HOME"});
}

TEST_F(ShakespeareTest, ARelativeCacheDoesNotCount) {
  const ScopedEnv cache("XDG_CACHE_HOME", "relative"), home("HOME", home_.path().string());
  expect_error([] { load_corpus({.dataset = "shakespeare"}); }, ExitCode::data,
               {(home_.path() / ".cache/gradmill/shakespeare/input.txt").string()});
}

TEST_F(ShakespeareTest, AnotherTextIsRefused) {
  const fs::path given = data_.write("shakespeare/input.txt", kText);
  for (bool download : {false, true}) {
    expect_error([&] { load_corpus({.dataset = "shakespeare", .download = download}); }, ExitCode::data,
                 {given.string(), "SHA-256", "remove it"});
  }
  EXPECT_TRUE(fs::exists(given));
}

// The real text, if this machine has it.
TEST(ShakespeareText, IsFoundGivenOrCached) {
  const char* folder = ::getenv("GRADMILL_DATA");
  const fs::path source = fs::path(folder == nullptr ? "" : folder) / "shakespeare/input.txt";
  if (folder == nullptr || !fs::exists(source)) {
    GTEST_SKIP() << "set GRADMILL_DATA to the folder that holds shakespeare/input.txt";
  }
  const Corpus given = load_corpus({.dataset = "shakespeare"});
  EXPECT_EQ(given.origin, source.string());
  EXPECT_EQ(given.name, "shakespeare");
  EXPECT_EQ(given.text.size(), 1115394u);
  EXPECT_EQ(CharVocab::from_text(given.text).size(), 65);
  EXPECT_EQ(load_corpus({.dataset = "shakespeare", .max_chars = 13}).text, "First Citizen");

  TemporaryFolder home, bin;
  const fs::path cached = home.path() / "gradmill/shakespeare/input.txt";
  const fs::path curl = bin.write("curl", fmt::format("#!/bin/sh\n/bin/cat '{}'\n", source.string()));
  ::chmod(curl.c_str(), 0755);
  const ScopedEnv no_data("GRADMILL_DATA", std::nullopt), cache("XDG_CACHE_HOME", home.path().string());
  const ScopedEnv path("PATH", bin.path().string());
  home.write("gradmill/shakespeare/input.txt", "broken");
  EXPECT_EQ(load_corpus({.dataset = "shakespeare", .download = true}).text, given.text);
  fs::remove(curl);
  const Corpus again = load_corpus({.dataset = "shakespeare", .download = true});
  EXPECT_EQ(again.origin, cached.string());
  EXPECT_EQ(again.text, given.text);
  EXPECT_EQ(home.num_entries(), 3);
}

}  // namespace
}  // namespace gradmill::test
