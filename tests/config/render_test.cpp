// SPDX-License-Identifier: Apache-2.0
#include "config/render.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

TEST(ConfigRender, EffectiveYamlReadsBack) {
  const TemporaryFolder folder;
  LoadedConfig loaded = load_config({.overrides = {"experiment=shakespeare_gpu", "training.seed=9223372036854775807"}});
  RunConfig& config = loaded.config;
  config.optimizer.lr = std::nextafter(0.1, 1.0);
  config.optimizer.min_lr = 1.0 / 3;
  config.optimizer.min_lr /= 10;
  config.optimizer.eps = 1.2345678901234567e-17;
  config.eval.every_minutes = std::numeric_limits<double>::max();
  config.model.tied = false;
  for (const char* text : {"self", "off", "5", "1e-3", "~", "null", "a: b # c", "\"quoted\" \\ 'single'", "- x",
                           " lead", "./f\xc3\xbcr", "&a", "*b", "/data/x.txt", "C:\\x\\n", "yes", "{a}", "%", "@"}) {
    config.data.dataset = text;
    config.checkpoint.dir = text;
    for (bool with_origins : {false, true}) {
      const std::string yaml = effective_yaml(loaded, with_origins);
      if (with_origins) {
        EXPECT_EQ(origins_in(yaml), loaded.origins) << yaml;
      }
      const LoadedConfig again = load_config({.files = {folder.write("again.yaml", yaml)}});
      EXPECT_EQ(diff(config, again.config).size(), 0u) << yaml;
      EXPECT_EQ(again.config.optimizer.lr, config.optimizer.lr);
      EXPECT_EQ(again.config.optimizer.eps, config.optimizer.eps);
      EXPECT_EQ(again.config.data.dataset, text);
    }
  }
}

TEST(ConfigRender, EffectiveYamlNamesOrigins) {
  const TemporaryFolder folder;
  const auto path = folder.write("run.yaml", "model:\n  layers: 2\n");
  const LoadedConfig loaded = load_config({.overrides = {"training.steps=7", "logging.progress=off"}, .files = {path}});
  const std::string yaml = effective_yaml(loaded, true);
  const auto line_with = [&](const std::string& start) {
    const size_t begin = yaml.find("\n" + start);
    return begin == std::string::npos ? "" : yaml.substr(begin + 1, yaml.find('\n', begin + 1) - begin - 1);
  };
  EXPECT_EQ(yaml.substr(0, 6), "data:\n");
  EXPECT_EQ(line_with("  layers:"), "  layers: 2                       # " + path.string() + ":2");
  EXPECT_EQ(line_with("  steps:"), "  steps: 7                        # command line");
  EXPECT_EQ(line_with("  progress:"), "  progress: \"off\"                 # command line");
  EXPECT_EQ(line_with("  seed:"), "  seed: 1337                      # default");
  EXPECT_EQ(effective_yaml(loaded, false).find('#'), std::string::npos);
}

TEST(ConfigRender, Diff) {
  RunConfig a, b;
  EXPECT_TRUE(diff(a, b).empty());
  b.training.steps = 5;
  b.model.tied = false;
  b.optimizer.lr = std::nextafter(1e-3, 1.0);
  const std::vector<ConfigDifference> expected = {{"model.tied", "true", "false"},
                                                  {"training.steps", "2000", "5"},
                                                  {"optimizer.lr", "0.001", "0.0010000000000000002"}};
  EXPECT_EQ(diff(a, b), expected);
}

TEST(ConfigRender, HelpAndReferenceNameEverySetting) {
  RunConfig config;
  const FieldList list = fields_of(config);
  const std::string help = config_help(), page = config_reference();
  for (const Field& field : list.fields()) {
    EXPECT_NE(help.find("  " + field.name() + "="), std::string::npos) << field.name();
    EXPECT_NE(page.find("| `" + field.key + "` |"), std::string::npos) << field.name();
  }
  EXPECT_NE(help.find("  training.batch_size=12 "), std::string::npos);
  EXPECT_NE(page.find("| `patience` | `0` | evaluations without improvement before the run stops | a whole number, 0 "
                      "or more (0: off) |"),
            std::string::npos);
}

// With GRADMILL_UPDATE_DOCS=1, writes the page instead.
TEST(ConfigRender, TheReferencePageIsUpToDate) {
  const std::string path = GRADMILL_SOURCE_DIR "/docs/config.md";
  if (std::getenv("GRADMILL_UPDATE_DOCS") != nullptr) std::ofstream(path) << config_reference();
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), config_reference()) << "run this test with GRADMILL_UPDATE_DOCS=1 and commit docs/config.md";
}

}  // namespace
}  // namespace gradmill::test
