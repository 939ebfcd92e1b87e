// SPDX-License-Identifier: Apache-2.0
// Vectors of floats over any element type, and functions that ops share. Included once per Highway target, in files
// that set HWY_TARGET_INCLUDE. All arithmetic is fp32; conversions round to nearest even.
#if defined(GRADMILL_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_CPU_SIMD_INL_H_
#undef GRADMILL_CPU_SIMD_INL_H_
#else
#define GRADMILL_CPU_SIMD_INL_H_
#endif

#include <cstring>

#include "core/dtype.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

HWY_INLINE size_t lanes() { return hn::Lanes(FloatTag()); }

HWY_INLINE Floats load(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE Floats load(const Bf16* from) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::RebindToUnsigned<FloatTag> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(wide));
}
HWY_INLINE Floats load(const Fp16* from) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::PromoteTo(FloatTag(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}

HWY_INLINE void store(Floats value, float* to) { hn::StoreU(value, FloatTag(), to); }
HWY_INLINE void store(Floats value, Bf16* to) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::RebindToUnsigned<FloatTag> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  // Rounding could turn a NaN into infinity or zero, so keep its top half and set the quiet bit.
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40));
  const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
  // Values fit 16 bits, but the signed saturating demotion must read them as signed.
  const hn::RebindToSigned<FloatTag> i32;
  const hn::Rebind<int16_t, FloatTag> i16;
  const auto sign_extended = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(i32, chosen)));
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(i16, sign_extended)), d16, reinterpret_cast<uint16_t*>(to));
}
HWY_INLINE void store(Floats value, Fp16* to) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  hn::StoreU(hn::DemoteTo(d16, value), d16, reinterpret_cast<hwy::float16_t*>(to));
}

// Calls run(T{}) with the C++ type of a float dtype.
template <class Run>
HWY_INLINE void visit_float(DType dtype, Run&& run) {
  switch (dtype) {
    case DType::bf16:
      return run(Bf16{});
    case DType::fp16:
      return run(Fp16{});
    default:
      return run(float{});
  }
}

// Loads the first `count` (< lanes) elements; the other lanes are zero.
template <class T>
HWY_INLINE Floats load_partial(const T* from, size_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(static_cast<void*>(buffer), from, count * sizeof(T));
  return load(buffer);
}
template <class T>
HWY_INLINE void store_partial(Floats value, T* to, size_t count) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)];
  store(value, buffer);
  std::memcpy(static_cast<void*>(to), buffer, count * sizeof(T));
}

// Processes [0, size) one vector at a time with body(i, load, store), where load(p) reads p[i..] and store(v, p) writes
// p[i..]. The last call may be partial. Its missing lanes read as zero, so a reduction must be one to which zeros add
// nothing.
template <class Body>
HWY_INLINE void for_each_vector(int64_t size, Body&& body) {
  const auto width = static_cast<int64_t>(lanes());
  int64_t i = 0;
  for (; i + width <= size; i += width) {
    body(
        i, [i](const auto* p) HWY_ATTR { return load(p + i); }, [i](Floats v, auto* p) HWY_ATTR { store(v, p + i); });
  }
  if (i < size) {
    const auto count = static_cast<size_t>(size - i);
    body(
        i, [i, count](const auto* p) HWY_ATTR { return load_partial(p + i, count); },
        [i, count](Floats v, auto* p) HWY_ATTR { store_partial(v, p + i, count); });
  }
}

HWY_INLINE Floats splat(float value) { return hn::Set(FloatTag(), value); }
HWY_INLINE Floats zeros() { return hn::Zero(FloatTag()); }
HWY_INLINE float sum_lanes(Floats value) { return hn::GetLane(hn::SumOfLanes(FloatTag(), value)); }
HWY_INLINE float max_lanes(Floats value) { return hn::GetLane(hn::MaxOfLanes(FloatTag(), value)); }

// Valid for x up to 104; larger x give garbage. exp(NaN) is 0.
HWY_INLINE Floats exp(Floats x) { return hn::Exp(FloatTag(), x); }
// 1 / (1 + e^-x), for any x.
HWY_INLINE Floats sigmoid(Floats x) {
  const Floats minus = hn::Min(hn::Neg(x), splat(104.0f));
  return hn::Div(splat(1.0f), hn::Add(splat(1.0f), exp(minus)));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
