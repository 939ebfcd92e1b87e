// SPDX-License-Identifier: Apache-2.0
#include "core/arena.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/exec_context.h"

namespace gradmill {
namespace {

TensorView take(Arena& arena, int64_t floats, const std::string& owner = "x") {
  return arena.alloc({floats}, DType::fp32, [&] { return owner; });
}

TEST(Arena, AlignsEveryTensor) {
  const Storage storage(4096);
  Arena arena("a");
  arena.attach(storage.bytes());
  const auto* base = storage.bytes().data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % kAlignment, 0u);
  EXPECT_EQ(static_cast<std::byte*>(take(arena, 1).data), base);
  EXPECT_EQ(static_cast<std::byte*>(take(arena, 65).data), base + kAlignment);
  EXPECT_EQ(static_cast<std::byte*>(take(arena, 1).data), base + 3 * kAlignment);
  EXPECT_EQ(arena.used(), 4 * kAlignment);
}

TEST(Arena, ScopeGivesBackAndTheHighWaterStays) {
  const Storage storage(4096);
  Arena arena("a");
  arena.attach(storage.bytes());
  take(arena, 64);
  void* first = nullptr;
  {
    const ArenaScope scope(arena);
    first = take(arena, 64).data;
    take(arena, 128);
  }
  EXPECT_EQ(arena.used(), 256u);
  EXPECT_EQ(arena.high_water(), 1024u);
  EXPECT_EQ(take(arena, 64).data, first);
  EXPECT_EQ(arena.high_water(), 1024u);
}

TEST(Arena, OverflowNamesTheArena) {
  const Storage storage(512);
  Arena arena("scratch");
  arena.attach(storage.bytes());
  take(arena, 128);
  try {
    take(arena, 1);
    FAIL() << "an arena of 512 bytes gave 768";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'scratch' needs 768"), std::string::npos) << error.what();
    EXPECT_EQ(error.code(), ExitCode::failure);
  }
}

TEST(Arena, PoisonIsNan) {
  const Storage storage(512);
  Arena arena("a");
  arena.attach(storage.bytes());
  EXPECT_EQ(take(arena, 1).ptr<float>()[0], 0.0f);
  arena.set_poison(poison_host);
  EXPECT_TRUE(std::isnan(take(arena, 1).ptr<float>()[0]));
}

TEST(Arena, OnPaperThereIsNoMemoryAndNoLimit) {
  Arena arena("a");
  EXPECT_TRUE(arena.on_paper());
  const TensorView view = arena.alloc({int64_t{1} << 20, int64_t{1} << 20}, DType::fp32, [] { return "huge"; });
  EXPECT_EQ(view.data, nullptr);
  EXPECT_TRUE(view.defined());
  EXPECT_EQ(arena.used(), size_t{1} << 42);
}

TEST(Arena, PaperAndRealPlansAreEqual) {
  const Storage storage(1 << 20);
  Arena paper("a"), real("a");
  real.attach(storage.bytes());
  for (Arena* arena : {&paper, &real}) {
    take(*arena, 100);
    for (int64_t size : {1000, 3, 5000}) {
      const ArenaScope scope(*arena);
      take(*arena, size);
      take(*arena, 1);
    }
    take(*arena, 7);
  }
  EXPECT_EQ(paper.used(), real.used());
  EXPECT_EQ(paper.high_water(), real.high_water());
}

TEST(Arena, OwnersAreThoseOfThePeak) {
  Arena arena("a");
  take(arena, 64, "kept");
  {
    const ArenaScope scope(arena);
    take(arena, 64, "early");
  }
  {
    const ArenaScope scope(arena);
    take(arena, 128, "peak");
  }
  take(arena, 64, "late");
  const std::vector<OwnerBytes> owners = arena.owners_at_peak();
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0].owner, "kept");
  EXPECT_EQ(owners[0].bytes, 256u);
  EXPECT_EQ(owners[1].owner, "peak");
  EXPECT_EQ(owners[1].bytes, 512u);
  size_t total = 0;
  for (const OwnerBytes& owner : owners) total += owner.bytes;
  EXPECT_EQ(total, arena.high_water());
}

TEST(Arena, OwnersWhenThePeakIsNow) {
  Arena arena("a");
  take(arena, 64, "first");
  EXPECT_EQ(arena.owners_at_peak().size(), 1u);
  take(arena, 64, "second");
  EXPECT_EQ(arena.owners_at_peak().size(), 2u);
}

TEST(ExecContext, NamesOwnersByPath) {
  ExecContext ctx;
  const NameScope layers(ctx, "layers", 3);
  {
    const NameScope attention(ctx, "attention");
    ctx.alloc(ctx.saved, {1}, DType::fp32, "lse");
  }
  EXPECT_EQ(ctx.path("x"), "layers.3.x");
  EXPECT_EQ(ctx.saved.owners_at_peak().at(0).owner, "layers.3.attention.lse");
}

}  // namespace
}  // namespace gradmill
