// SPDX-License-Identifier: Apache-2.0
#include "run/fit_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model_files/folder_files.h"
#include "run/preset.h"
#include "run/run_model.h"
#include "session/session.h"
#include "run/run_options.h"

namespace gradmill::test {
namespace {

CheckedData sizes_alone(const RunConfig& config) { return {.vocab = 40, .shape = batch_shape(config)}; }

const FitChoice* find(const std::vector<FitChoice>& choices, const std::string& settings) {
  const auto at = std::ranges::find(choices, settings, &FitChoice::settings);
  return at == choices.end() ? nullptr : &*at;
}

RunConfig small_config() {
  RunConfig config;
  config.model.context = 32;
  config.training.batch_size = 5;
  config.machine.device = "rtx4090";
  return config;
}

TEST(FitPlan, TriesEveryWayToSaveMemory) {
  const RunConfig config = small_config();
  const std::vector<FitChoice> choices = fit_choices(config, sizes_alone);
  ASSERT_EQ(choices.size(), 4u * 3);  // micro-batches of 5, 3, 2 and 1
  const FitChoice* const whole = find(choices, "");
  ASSERT_EQ(whole, &choices.front());
  const RunModel opened = open_run_model(config, {}, 40);
  const Transformer& model = *opened.network;
  EXPECT_EQ(whole->bytes, Session::plan(model, session_options(config)).total_bytes());
  for (const char* settings : {"machine.save_policy=cheap", "machine.save_policy=block", "training.micro_batch_size=3",
                               "training.micro_batch_size=1 machine.save_policy=block"}) {
    const FitChoice* const choice = find(choices, settings);
    ASSERT_NE(choice, nullptr) << settings;
    EXPECT_LT(choice->bytes, whole->bytes) << settings;
  }
  EXPECT_GT(find(choices, "machine.save_policy=block")->step_seconds, whole->step_seconds);
}

TEST(FitPlan, KeepsWhatIsSet) {
  RunConfig config = small_config();
  config.training.micro_batch_size = 2;
  config.machine.save_policy = "cheap";
  const std::vector<FitChoice> choices = fit_choices(config, sizes_alone);
  ASSERT_EQ(choices.size(), 2u * 2);
  EXPECT_EQ(choices.back().settings, "training.micro_batch_size=1 machine.save_policy=block");
}

TEST(FitPlan, NarrowsAFrozenBase) {
  const TempFolder folder;
  folder.write("config.json", kTinyLlama);
  RunConfig config = small_config();
  config.training.batch_size = 1;
  config.model.path = folder.path().string();
  config.model.init = "random";
  config.adapter.kind = "lora";
  config.adapter.rank = 2;
  const std::vector<FitChoice> choices = fit_choices(config, sizes_alone);
  ASSERT_EQ(choices.size(), 3u * 3);
  EXPECT_NE(find(choices, "model.load_in=int8"), nullptr);
  EXPECT_NE(find(choices, "machine.save_policy=block model.load_in=nf4"), nullptr);
}

TEST(FitPlan, TakesTheFastestThatFits) {
  constexpr size_t kGiB = size_t{1} << 30;
  const std::vector<FitChoice> choices = {
      {"", 8 * kGiB, 1.0}, {"slow", 2 * kGiB, 3.0}, {"fast", 3 * kGiB, 2.0}, {"same", kGiB, 3.0}};
  EXPECT_EQ(fastest_fit(choices, 8 * kGiB)->settings, "");
  EXPECT_EQ(fastest_fit(choices, 8 * kGiB - 1)->settings, "fast");
  EXPECT_EQ(fastest_fit(choices, 2 * kGiB)->settings, "slow");
  EXPECT_EQ(fastest_fit(choices, kGiB - 1), nullptr);
  const std::string text = describe_fits(choices, std::vector<double>{0.5, 12});
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "DOES NOT FIT, even with same", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "nothing changed", text);
}

TEST(FitPlan, NarrowsOnlyWhereNothingElseFits) {
  constexpr size_t kGiB = size_t{1} << 30;
  const std::vector<FitChoice> choices = {{"", 8 * kGiB, 1.0}, {"nf4", 3 * kGiB, 1.0, 2}, {"block", 4 * kGiB, 9.0}};
  EXPECT_EQ(fastest_fit(choices, 5 * kGiB)->settings, "block");
  EXPECT_EQ(fastest_fit(choices, 3 * kGiB)->settings, "nf4");
}

class PresetTest : public testing::Test {
 protected:
  static LoadedConfig config(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"model.context=256", "training.batch_size=64", "machine.device=rtx4090"});
    return load_config({.overrides = more});
  }
  // Slightly less than the run would need unchanged.
  static std::string too_small(const LoadedConfig& config) {
    const double bytes = double(fit_choices(config.config, sizes_alone).front().bytes);
    return fmt::format("{:.6f}GiB", bytes / double(size_t{1} << 30) - 1e-4);
  }
};

TEST_F(PresetTest, ChangesNothingThatFits) {
  for (const char* name : {"auto", "rtx3090", "12", "12GB"}) {
    const Preset preset = choose_preset(config(), name, sizes_alone);
    EXPECT_TRUE(preset.settings.empty()) << name;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "nothing was changed", preset.reason);
  }
}

TEST_F(PresetTest, ChoosesWhatFitsAndSaysWhy) {
  const LoadedConfig loaded = config();
  const std::string name = too_small(loaded);
  const Preset preset = choose_preset(loaded, name, sizes_alone);
  ASSERT_FALSE(preset.settings.empty());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "preset " + name, preset.reason);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, preset.settings.front(), preset.reason);
}

TEST_F(PresetTest, LeavesAloneWhatSomebodyChose) {
  const LoadedConfig policy = config({"machine.save_policy=none"});
  EXPECT_EQ(choose_preset(policy, too_small(policy), sizes_alone).settings,
            std::vector<std::string>{"training.micro_batch_size=32"});
  const LoadedConfig both = config({"machine.save_policy=none", "training.micro_batch_size=64"});
  try {
    choose_preset(both, too_small(both), sizes_alone);
    ADD_FAILURE() << "nothing may be changed, so nothing fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "nothing to change", std::string(error.what()));
  }
}

TEST_F(PresetTest, KnowsItsNames) {
  for (const char* name : {"rtx1", "12MB", "-3", "GB"}) {
    EXPECT_THROW(choose_preset(config(), name, sizes_alone), Error) << name;
  }
}

}  // namespace
}  // namespace gradmill::test
