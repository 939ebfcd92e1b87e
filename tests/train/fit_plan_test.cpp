// SPDX-License-Identifier: Apache-2.0
#include "train/fit_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hf/folder_files.h"
#include "train/run_model.h"
#include "train/run_options.h"

namespace gradmill::test {
namespace {

CheckedData sizes_alone(const RunConfig& config) { return {.vocab = 40, .sizes = session_options(config)}; }

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
  const Transformer model = open_run_model(config, {}, 40).make();
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

}  // namespace
}  // namespace gradmill::test
