// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "metrics/files.h"

namespace gradmill {
namespace {

using test::eval_at;
using test::step_at;

// A terminal or a pipe; the test holds the other end and the clock.
struct Screen {
  std::string text;
  int num_writes = 0;
  double now = 100;
  int width = 80;

  ProgressOptions options(bool terminal) {
    return {.total_steps = 200,
            .num_epochs = 25,
            .every_steps = 10,
            .terminal = terminal,
            .width = [this] { return width; },
            .clock = [this] { return now; },
            .write =
                [this](std::string_view bytes) {
                  text += bytes;
                  ++num_writes;
                }};
  }
  std::string take() {
    num_writes = 0;
    return std::exchange(text, {});
  }
};

const std::string kClear = "\r\x1b[K";

TEST(Progress, PlainLinesWhenPiped) {
  Screen screen;
  Progress progress(screen.options(false));
  for (int64_t step = 1; step <= 9; ++step) {
    progress.step(step_at(step));
    screen.now += 2;
  }
  EXPECT_EQ(screen.take(), "");
  progress.step(step_at(10));
  EXPECT_EQ(screen.take(),
            "step  10/200  epoch 1.25/25  loss 0.4000  lr 1.00e-03  grad norm 0.5000  1.00k tok/s  15.6 samples/s  "
            "MFU 25.0%  mem 3.00 MiB  ETA 6:20\n");
  progress.step(step_at(200));
  const std::string last = screen.take();
  EXPECT_TRUE(last.starts_with("step 200/200") && last.ends_with("mem 3.00 MiB\n")) << last;
}

TEST(Progress, ShowsTheGpuWhereItIsKnown) {
  Screen screen;
  Progress progress(screen.options(false));
  StepMetrics step = step_at(10);
  step.gpu = {.utilisation = 0.97, .watts = 650.4, .celsius = 61};
  progress.step(step);
  const std::string line = screen.take();
  EXPECT_TRUE(line.ends_with("mem 3.00 MiB  GPU 97%  650 W  61 C\n")) << line;
}

TEST(Progress, UnknownNumbersAreLeftOut) {
  Screen screen;
  ProgressOptions options = screen.options(false);
  options.total_steps = 0;
  Progress progress(options);
  progress.step({.step = 10, .loss = 1.5, .grad_norm = 2});
  EXPECT_EQ(screen.take(), "step 10  loss 1.5000  grad norm 2.0000\n");
}

TEST(Progress, SaysWhenAnUpdateWasSkipped) {
  Screen screen;
  Progress progress(screen.options(false));
  StepMetrics bad = step_at(3);
  bad.finite = false;
  bad.loss = kUnknown;
  progress.step(bad);
  EXPECT_EQ(screen.take(), "step   3/200  not finite: the update was skipped\n");
}

TEST(Progress, RedrawsInPlaceTenTimesASecond) {
  Screen screen;
  Progress progress(screen.options(true));
  for (int64_t step = 1; step <= 100; ++step) {
    progress.step(step_at(step));
    screen.now += 0.01;
  }
  EXPECT_GE(screen.num_writes, 9);
  EXPECT_LE(screen.num_writes, 11);
  EXPECT_EQ(screen.text.find('\n'), std::string::npos);
  EXPECT_TRUE(screen.text.starts_with(kClear));
}

TEST(Progress, FitsEveryWidth) {
  for (int width = 1; width <= 300; ++width) {
    Screen screen;
    screen.width = width;
    Progress progress(screen.options(true));
    progress.step(step_at(1));
    screen.now += 1;
    screen.take();
    progress.step(step_at(150));
    const std::string line = screen.take().substr(kClear.size());
    EXPECT_LE(line.size(), static_cast<size_t>(std::max(width - 1, 1))) << line;
    EXPECT_EQ(line.find("step 150/200") != std::string::npos, width > 12) << line;
    EXPECT_EQ(line.find("loss 0.0267") != std::string::npos, width > 25) << line;
    EXPECT_EQ(line.find("samples/s") != std::string::npos, width > 138) << line;
  }
}

TEST(Progress, TheBarShowsTheShareDone) {
  Screen screen;
  screen.width = 300;
  Progress progress(screen.options(true));
  progress.step(step_at(50));
  EXPECT_NE(screen.take().find("[==========>                             ] step  50/200"), std::string::npos);
  screen.now += 1;
  progress.step(step_at(200));
  EXPECT_NE(screen.take().find("[========================================] step 200/200"), std::string::npos);
}

TEST(Progress, LinesThatStayAreAboveTheBar) {
  Screen screen;
  screen.width = 30;
  Progress progress(screen.options(true));
  progress.eval(eval_at(0));
  EXPECT_EQ(screen.take(), "step   0/200  validation loss 5.0000  perplexity 2.0000  (0.50 s)  best so far\n");
  progress.step(step_at(1));
  const std::string bar = screen.take().substr(kClear.size());
  EXPECT_EQ(bar, "step   1/200  loss 4.0000");
  progress.eval(eval_at(1, false));
  EXPECT_EQ(screen.take(), kClear + "step   1/200  validation loss 2.5000  perplexity 2.0000  (0.50 s)\n" + bar);
  progress.epoch({.epoch = 1, .num_epochs = 25, .train_loss = 2.34567, .seconds = 75, .samples_per_s = 48.123});
  EXPECT_EQ(screen.take(),
            kClear + "Epoch [1/25] Average Train Loss: 2.3457 Epoch time: 1:15 Throughput: 48.1 samples/s\n" + bar);
  progress.finish({.step = 1, .best_eval_loss = 2.5, .best_step = 1, .seconds = 3661, .remarks = {"speed     fast"}});
  const std::string end = screen.take();
  EXPECT_TRUE(end.starts_with(kClear + "step   1/200  epoch")) << end;
  EXPECT_TRUE(
      end.ends_with("\nspeed     fast\nfinished after step 1 in 1:01:01; best validation loss 2.5000 at step 1\n"))
      << end;
}

TEST(Progress, SaysHowTheRunEnded) {
  for (const auto& [status, word] : {std::pair(RunStatus::completed, "finished"),
                                     {RunStatus::interrupted, "interrupted"},
                                     {RunStatus::failed, "failed"},
                                     {RunStatus::pruned, "pruned"}}) {
    Screen screen;
    Progress progress(screen.options(false));
    progress.finish({.status = status, .step = 3, .seconds = 5});
    EXPECT_TRUE(screen.text.starts_with(fmt::format("{} after step 3 in ", word))) << screen.text;
  }
}

TEST(Progress, ClearsTheLineWhenItEndsEarly) {
  Screen screen;
  {
    Progress progress(screen.options(true));
    progress.step(step_at(1));
    screen.take();
  }
  EXPECT_EQ(screen.take(), kClear);
  { Progress nothing_drawn(screen.options(true)); }
  EXPECT_EQ(screen.take(), "");
}

TEST(Progress, TheWarmUpOfTheFirstStepAndStepsOfEarlierRunsDoNotCountForTheEta) {
  Screen screen;
  Progress progress(screen.options(false));
  screen.now += 1000;
  progress.step(step_at(101));
  screen.now += 27;
  progress.step(step_at(110));
  EXPECT_NE(screen.take().find("ETA 4:30\n"), std::string::npos);  // 3 s per step, 90 remaining
}

TEST(Progress, FeaturesAreOneLineEach) {
  Screen screen;
  Progress progress(screen.options(false));
  const Feature features[] = {{"flash attention", true, "tiled, linear in memory"}, {"cuda graphs", false, "no GPU"}};
  progress.features(features);
  EXPECT_EQ(screen.take(),
            "feature  flash attention        active    tiled, linear in memory\n"
            "feature  cuda graphs            inactive  no GPU\n");
}

}  // namespace
}  // namespace gradmill
