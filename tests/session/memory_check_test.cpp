// SPDX-License-Identifier: Apache-2.0
#include "session/memory_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "support/errors.h"
#include "run/run_options.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

class MemoryCheck : public testing::Test {
 protected:
  MemoryCheck() {
    config_.machine.device = "rtx3090";
    config_.training.batch_size = 8;
    config_.model.context = 64;
  }
  SessionOptions options() const { return session_options(config_); }
  MemoryPlan plan() const { return Session::plan(Transformer(model_spec(config_, 256)), options()); }

  RunConfig config_;
};

TEST_F(MemoryCheck, WhatFitsToTheByteFits) {
  const MemoryPlan needed = plan();
  require_memory(needed, options(), {}, needed.slab_bytes());
  expect_error([&] { require_memory(needed, options(), {}, needed.slab_bytes() - 1); }, ExitCode::out_of_memory,
               {"GeForce RTX 3090", "most of it is for", "training.micro_batch_size=4", "machine.save_policy=cheap",
                "model.context=32", "--preset auto"});
}

TEST_F(MemoryCheck, NamesWhatIsLargest) {
  const MemoryPlan needed = plan();
  const std::vector<OwnerFamily> owners = needed.owners();
  ASSERT_GT(owners.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(owners, std::greater(), &OwnerFamily::bytes));
  size_t sum = 0;
  for (const OwnerFamily& owner : owners) sum += owner.bytes;
  EXPECT_LE(sum, needed.slab_bytes());
  EXPECT_GT(sum, needed.slab_bytes() / 10 * 9);
  expect_error([&] { require_memory(needed, options(), {}, needed.persistent.bytes); }, ExitCode::out_of_memory,
               {owners[0].name, owners[2].name});
}

TEST_F(MemoryCheck, SaysWhenNoBatchIsSmallEnough) {
  const MemoryPlan needed = plan();
  expect_error([&] { require_memory(needed, options(), {}, needed.persistent.bytes - 1); }, ExitCode::out_of_memory,
               {"are needed for any batch", "smaller model", "adapter.kind=lora"});
}

TEST_F(MemoryCheck, AdaptersAreOfferedANarrowerBase) {
  const MemoryPlan needed = plan();
  AdapterPlan adapters{.freezes_base = true};
  expect_error([&] { require_memory(needed, options(), adapters, needed.slab_bytes() - 1); }, ExitCode::out_of_memory,
               {"model.load_in=int8", "--preset auto"});
  for (const auto& [base, offered] : {std::pair(WeightFormat::compute, "use model.load_in=int8, or a smaller model"),
                                      std::pair(WeightFormat::int8, "use model.load_in=nf4, or a smaller model"),
                                      std::pair(WeightFormat::nf4, "use a smaller model")}) {
    adapters.base = base;
    expect_error([&] { require_memory(needed, options(), adapters, needed.persistent.bytes - 1); },
                 ExitCode::out_of_memory, {"are needed for any batch", offered});
  }
}

TEST_F(MemoryCheck, OffersOnlyWhatIsLess) {
  config_.machine.save_policy = "block";
  config_.training.batch_size = 1;
  const MemoryPlan needed = plan();
  try {
    require_memory(needed, options(), {}, needed.persistent.bytes);
    FAIL() << "activations need room";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("save_policy"), std::string::npos) << text;
    EXPECT_EQ(text.find("micro_batch"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace gradmill::test
