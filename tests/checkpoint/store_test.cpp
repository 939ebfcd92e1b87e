// SPDX-License-Identifier: Apache-2.0
// Checkpoints without faults: saved data can be read back, bad files are refused, and old checkpoints are removed.
#include "checkpoint/store.h"

#include <map>

#include "checkpoint/store_fixture.h"

namespace gradmill::test {
namespace {

using Steps = std::vector<int64_t>;

TEST_F(StoreTest, RoundTrip) {
  CheckpointStore store(run_);
  EXPECT_TRUE(store.steps().empty());
  EXPECT_FALSE(store.newest());
  SmallState first(1), second(2);
  store.save(first.write(0));
  store.save(second.write(123456789));
  EXPECT_EQ(store.steps(), (Steps{0, 123456789}));
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-00000000", "step-123456789"}));
  EXPECT_TRUE(first.matches(store.open(0)));
  const Checkpoint newest = store.newest().value();
  EXPECT_EQ(newest.step(), 123456789);
  EXPECT_EQ(newest.folder(), checkpoints() / "step-123456789");
  EXPECT_EQ(store.path(123456789), newest.folder());
  EXPECT_TRUE(store.path(77).empty());
  EXPECT_EQ(newest.files(), (std::vector<std::string>{"config.json", "model.safetensors", "state.safetensors"}));
  EXPECT_TRUE(second.matches(newest));
  EXPECT_TRUE(second.matches(Checkpoint(newest.folder())));
}

TEST_F(StoreTest, StateKeepsItsNumbers) {
  CheckpointWrite write{7};
  write.state_json =
      R"({"big":18446744073709551615,"pi":3.141592653589793,"small":5e-324,"none":null,"list":[-1,-0.0]})";
  CheckpointStore store(run_);
  store.save(write);
  EXPECT_EQ(store.open(7).state_json(),
            R"({"big":18446744073709551615,"list":[-1,-0.0],"none":null,"pi":3.141592653589793,"small":5e-324})");
}

TEST_F(StoreTest, ReplacesAStep) {
  CheckpointStore store(run_);
  SmallState first(1), second(2);
  store.save(first.write(5));
  const Checkpoint open = store.open(5);
  store.save(second.write(5));
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-00000005"}));
  EXPECT_TRUE(second.matches(store.open(5)));
  EXPECT_EQ(*open.tensor("state.safetensors", "count").ptr<int32_t>(), 1) << "what is mapped stays";
}

TEST_F(StoreTest, LooksOnlyAtItsOwnFolders) {
  CheckpointStore store(run_);
  SmallState state(1);
  store.save(state.write(5));
  for (const char* name : {"step-5", "step-000000x6", "step-00000006", "best", ".tmp-step-00000009-1"}) {
    std::filesystem::create_directories(checkpoints() / name);
  }
  std::filesystem::copy(step_folder(5), checkpoints() / "step-00000005-copy");
  overwrite(step_folder(5) / "notes.txt", "mine");
  EXPECT_EQ(store.steps(), (Steps{5}));
  EXPECT_TRUE(state.matches(store.newest().value()));
}

TEST_F(StoreTest, RefusesWrongManifests) {
  CheckpointStore store(run_);
  SmallState state(1);
  store.save(state.write(5));
  const std::string good = read(step_folder(5) / kManifestName);
  const auto refusal = [&](const std::string& text) {
    write_manifest(5, text);
    return message_of([&] { store.open(5); }, ExitCode::data);
  };
  const auto with = [&](const std::string& old, const std::string& replacement) {
    const size_t place = good.find(old);
    EXPECT_NE(place, std::string::npos) << old;
    return std::string(good).replace(place, old.size(), replacement);
  };
  EXPECT_EQ(refusal(good), "no error");
  // Names that lead out of the folder, to the manifest itself, or to missing files.
  overwrite(run_ / "secret", read(step_folder(5) / "config.json"));
  for (const std::string name : {"../../secret", "/etc/passwd", "..", ".", "", ".hidden", "a/b", "a\\\\b", "state.json",
                                 "state.crc", "a\\u0000b"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "is not a valid name for a file of a checkpoint",
                        refusal(with("config.json", name)))
        << name;
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "other.json: cannot open", refusal(with("config.json", "other.json")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "format 2; this gradmill reads format 1",
                      refusal(with("\"format\": 1", "\"format\": 2")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "holds the checkpoint of step 6",
                      refusal(with("\"step\": 5\n}", "\"step\": 6\n}")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "not an object of", refusal(with("\"step\": 5\n}", "\"step\": -5\n}")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "too large",
                      refusal(with("\"step\": 5\n}", "\"step\": 18446744073709551615\n}")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "damaged", refusal(with("\"bytes\": ", "\"bytes\": -")));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "damaged", refusal(with("\"crc32c\": \"", "\"crc32c\": \"0")));
  for (const std::string text : {"", "{}", "[]", "1", "{\"format\":1}", "{\"format\":\"1\"}"}) {
    EXPECT_NE(refusal(text), "no error") << text;
  }
  for (size_t size = 0; size + 1 < good.size(); size += 3) EXPECT_NE(refusal(good.substr(0, size)), "no error");
}

TEST_F(StoreTest, RefusesATruncatedManifestAndMissingFiles) {
  CheckpointStore store(run_);
  SmallState old(1), state(2);
  store.save(old.write(4));
  for (const char* name : {"state.json", "state.crc", "model.safetensors", "config.json"}) {
    const std::string whole = (store.save(state.write(5)), read(step_folder(5) / name));
    overwrite(step_folder(5) / name, whole.substr(0, whole.size() / 2));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "step-00000005/", message_of([&] { store.open(5); }, ExitCode::data));
    std::vector<std::string> skipped;
    EXPECT_TRUE(old.matches(store.newest(&skipped).value()));
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "step-00000005/", skipped[0]);
    std::filesystem::remove(step_folder(5) / name);
    EXPECT_NE(message_of([&] { store.open(5); }, ExitCode::data), "no error");
    EXPECT_TRUE(old.matches(store.newest().value()));
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no checkpoint of step 77",
                      message_of([&] { store.open(77); }, ExitCode::data));
}

TEST_F(StoreTest, RefusesLinks) {
  CheckpointStore store(run_);
  SmallState state(1);
  store.save(state.write(5));
  std::filesystem::rename(step_folder(5) / "config.json", run_ / "elsewhere");
  std::filesystem::create_symlink(run_ / "elsewhere", step_folder(5) / "config.json");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "config.json: cannot open",
                      message_of([&] { store.open(5); }, ExitCode::data));
}

TEST_F(StoreTest, RefusesToSaveWhatItWouldNotRead) {
  CheckpointStore store(run_);
  SmallState state(1);
  const auto refusal = [&](const CheckpointWrite& write) {
    return message_of([&] { store.save(write); }, ExitCode::data);
  };
  CheckpointWrite bad_name = state.write(1), no_object = state.write(1), no_json = state.write(1);
  bad_name.texts[0].name = "../config.json";
  no_object.state_json = "[1]";
  no_json.state_json = "{\"a\":}";
  for (const CheckpointWrite& write : {bad_name, no_object, no_json}) EXPECT_NE(refusal(write), "no error");
  EXPECT_TRUE(entries().empty());
}

TEST_F(StoreTest, AbsentAndMisplacedTensorsAreNamed) {
  CheckpointStore store(run_);
  SmallState state(1);
  store.save(state.write(5));
  const Checkpoint checkpoint = store.open(5);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no tensor 'x'",
                      message_of([&] { checkpoint.tensor("model.safetensors", "x"); }, ExitCode::data));
  EXPECT_NE(message_of([&] { checkpoint.tensor("config.json", "x"); }, ExitCode::data), "no error");
  EXPECT_NE(message_of([&] { checkpoint.text("absent"); }, ExitCode::data), "no error");
}

TEST_F(StoreTest, PruneKeepsTheLastAndTheBest) {
  CheckpointStore store(run_);
  SmallState state(1);
  for (int64_t step = 1; step <= 6; ++step) store.save(state.write(step));
  store.prune(10, {});
  EXPECT_EQ(store.steps().size(), 6u);
  store.prune(2, 3);
  EXPECT_EQ(store.steps(), (Steps{3, 5, 6}));
  store.prune(1, {});
  EXPECT_EQ(store.steps(), (Steps{6}));
  store.prune(0, 77);
  EXPECT_EQ(store.steps(), (Steps{6}));
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(StoreTest, PruneKeepsTheNewestGoodOne) {
  SmallState state(1);
  const auto damage = [&](int64_t step) { overwrite(step_folder(step) / "config.json", "damaged"); };
  {
    CheckpointStore store(run_);
    for (int64_t step = 1; step <= 5; ++step) store.save(state.write(step));
    damage(4), damage(5);
    CheckpointStore(run_).prune(1, {});
    EXPECT_EQ(store.steps(), (Steps{3, 5}));
  }
  CheckpointStore store(run_);
  store.save(state.write(4));
  store.prune(1, {});
  EXPECT_EQ(store.steps(), (Steps{4, 5}));
  EXPECT_EQ(store.newest()->step(), 4);
}

TEST_F(StoreTest, RemovesAStep) {
  CheckpointStore store(run_);
  SmallState state(1);
  store.save(state.write(1));
  store.save(state.write(2));
  store.remove(2);
  store.remove(77);
  EXPECT_EQ(entries(), (std::vector<std::string>{"step-00000001"}));
}

TEST_F(StoreTest, CleansTemporariesOfTheDead) {
  CheckpointStore store(run_);
  store.clean_temporaries();
  SmallState state(1);
  store.save(state.write(5));
  const std::string mine = fmt::format(".tmp-step-00000007-{}", ::getpid());
  const std::string alive = ".tmp-step-00000008-1";
  for (const std::string& name : {std::string(".tmp-step-00000006-999999999"), mine, alive,
                                  std::string(".tmp-removed-step-00000003-999999999"), std::string(".tmp-odd")}) {
    std::filesystem::create_directories(checkpoints() / name);
    overwrite(checkpoints() / name / "state.json", "x");
  }
  overwrite(run_ / ".tmp-trainer_state.json-999999999", "{");
  overwrite(run_ / "trainer_state.json", "{}");
  std::filesystem::create_directories(checkpoints() / ".replaced-step-00000005");
  std::filesystem::copy(step_folder(5), checkpoints() / ".replaced-step-00000004");
  store.clean_temporaries();
  EXPECT_EQ(entries(), (std::vector<std::string>{".replaced-step-00000004", alive, "step-00000005"}));
  EXPECT_FALSE(std::filesystem::exists(run_ / ".tmp-trainer_state.json-999999999"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "trainer_state.json"));
  EXPECT_EQ(store.steps(), (Steps{4, 5})) << "a replaced one with nothing in its place counts";
  store.remove(4);
  EXPECT_EQ(store.steps(), (Steps{5}));
}

// Records what happens to each path. After a power failure only synced data remains, so the order of calls is the
// contract.
struct Recorder : FaultyFileOps {
  using FaultyFileOps::FaultyFileOps;
  FileHandle create(const std::filesystem::path& path) override {
    created[path] = ++time;
    return FaultyFileOps::create(path);
  }
  size_t write(const FileHandle& file, std::span<const std::byte> bytes) override {
    written[file.path] = ++time;
    return FaultyFileOps::write(file, bytes);
  }
  void sync(const FileHandle& file) override {
    synced[file.path] = ++time;
    FaultyFileOps::sync(file);
  }
  void sync_folder(const std::filesystem::path& path) override {
    synced[path] = ++time;
    FaultyFileOps::sync_folder(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    renamed[from] = ++time;
    FaultyFileOps::rename(from, to);
  }

  int time = 0;
  std::map<std::filesystem::path, int> created, written, synced, renamed;
};

TEST_F(StoreTest, SyncsEverythingBeforeItGetsItsName) {
  Recorder ops(real_file_ops());
  CheckpointStore store(run_, ops);
  SmallState state(1);
  store.save(state.write(5));
  ASSERT_EQ(ops.created.size(), 5u);
  ASSERT_EQ(ops.renamed.size(), 1u);
  const auto [folder, renamed] = *ops.renamed.begin();
  for (const auto& [path, created] : ops.created) {
    EXPECT_EQ(path.parent_path(), folder);
    EXPECT_LT(created, ops.written.at(path));
    EXPECT_LT(ops.written.at(path), ops.synced.at(path));
    EXPECT_LT(ops.synced.at(path), ops.synced.at(folder));
  }
  EXPECT_LT(ops.synced.at(folder), renamed);
  EXPECT_LT(renamed, ops.synced.at(checkpoints()));
  EXPECT_GT(ops.synced.at(run_), 0);
}

TEST(ShortageOfSpace, CountsWhatIsToCome) {
  EXPECT_EQ(shortage_of_space(300, 100, 3), "");
  EXPECT_NE(shortage_of_space(299, 100, 3), "");
  const std::string text = shortage_of_space(size_t{3} << 20, size_t{10} << 20, 4);
  EXPECT_EQ(text, "a checkpoint takes 10.0 MiB, and 3.0 MiB are free where 4 more are to be written");
}

// A file system without hard links.
class NoLinks : public FaultyFileOps {
 public:
  NoLinks() : FaultyFileOps(real_file_ops()) {}
  void link(const std::filesystem::path& from, const std::filesystem::path&) override {
    throw FileError(from, "link", EPERM);
  }
};

TEST_F(StoreTest, AStateIsReplacedWithoutWritingTheFilesAgain) {
  SmallState state(1);
  CheckpointStore store(run_);
  store.save(state.write(5));
  const std::filesystem::path weights = step_folder(5) / "model.safetensors";
  std::filesystem::create_hard_link(weights, run_ / "weights");
  store.replace_state(5, R"({"other":1})");
  EXPECT_EQ(store.open(5).state_json(), R"({"other":1})");
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});
  EXPECT_TRUE(std::filesystem::equivalent(weights, run_ / "weights"));
  NoLinks no_links;
  CheckpointStore(run_, no_links).replace_state(5, R"({"other":2})");
  EXPECT_EQ(store.open(5).state_json(), R"({"other":2})");
  EXPECT_FALSE(std::filesystem::equivalent(weights, run_ / "weights"));
  store.replace_state(5, state.write(5).state_json);
  EXPECT_TRUE(state.matches(store.open(5)));
}

}  // namespace
}  // namespace gradmill::test
