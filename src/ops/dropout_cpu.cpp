// SPDX-License-Identifier: Apache-2.0
// Dropout on the CPU: draws the words of a few hundred columns at a time, then makes one pass over the elements.
#include "ops/dropout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/philox-inl.h"
#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void copy_rows(const DropoutArgs& args, int64_t begin, int64_t end) {
  if (args.x.data == args.y.data) return;
  for (int64_t r = begin; r < end; ++r) {
    std::memcpy(static_cast<void*>(args.y.row<T>(r)), args.x.row<T>(r), static_cast<size_t>(args.x.cols()) * sizeof(T));
  }
}

template <class T, bool kAdd>
void drop_rows(const DropoutArgs& args, const StepScalars& scalars, float p, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = 512;
  static_assert(kColumns % (8 * kPhiloxBlocks) == 0);
  const hn::RebindToUnsigned<FloatTag> words_tag;
  const hn::Rebind<uint16_t, FloatTag> halves_tag;
  HWY_ALIGN uint32_t words[kColumns / 2];
  const auto* halves = reinterpret_cast<const uint16_t*>(words);  // the low half first
  const uint32_t drops = drop_threshold(p);
  const auto threshold = hn::Set(words_tag, drops);
  const Floats scale = splat(drop_scale(drops));
  for (int64_t r = begin; r < end; ++r) {
    const int64_t row = args.tokens.defined() ? args.tokens.ptr<int32_t>()[r] : r;
    const auto token = static_cast<uint32_t>(scalars.token_base + row);
    for (int64_t c = 0; c < args.x.cols(); c += kColumns) {
      const int64_t size = HWY_MIN(kColumns, args.x.cols() - c);
      const T* x = args.x.row<T>(r) + c;
      T* y = args.y.row<T>(r) + c;
      philox_words(scalars.seed, {static_cast<uint32_t>(c / 8), token, scalars.step, args.site}, (size + 7) / 8, words);
      for_each_vector(size, [&](int64_t i, auto in, auto out) HWY_ATTR {
        const auto dropped = hn::Lt(hn::PromoteTo(words_tag, hn::LoadU(halves_tag, halves + i)), threshold);
        const Floats kept = hn::IfThenZeroElse(hn::RebindMask(FloatTag(), dropped), hn::Mul(in(x), scale));
        if constexpr (kAdd) {
          out(hn::Add(kept, in(y)), y);
        } else {
          out(kept, y);
        }
      });
    }
  }
}

}  // namespace

void dropout_rows(DType dtype, const DropoutArgs& args, const StepScalars& scalars, int64_t begin, int64_t end) {
  const float p = args.probability < 0 ? scalars.dropout : args.probability;
  visit_float(dtype, [&]<class T>(T) {
    if (p == 0 && !args.add) return copy_rows<T>(args, begin, end);
    if (args.add) return drop_rows<T, true>(args, scalars, p, begin, end);
    drop_rows<T, false>(args, scalars, p, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(dropout_rows);

template <Device D, class T>
void dropout(ExecContext& ctx, const DropoutArgs& args) {
  assert(ctx.scalars->dropout >= 0 && ctx.scalars->dropout < 1);
  const auto rows = HWY_DYNAMIC_DISPATCH(dropout_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, *ctx.scalars, begin, end); });
}

template void dropout<Device::cpu, float>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cpu, Bf16>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cpu, Fp16>(ExecContext&, const DropoutArgs&);

}  // namespace gradmill
#endif
