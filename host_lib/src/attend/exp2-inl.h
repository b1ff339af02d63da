// 2^x and tanh for vectors of floats.
//
// Included once per SIMD target (Google Highway's foreach_target).
#if defined(NEARKV_ATTEND_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARKV_ATTEND_EXP2_INL_H_
#undef NEARKV_ATTEND_EXP2_INL_H_
#else
#define NEARKV_ATTEND_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// 2^x for x <= 127, relative error below 2e-7; 0 below 2^-126, and for -inf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, -126.0F);
  const auto normal = hn::Ge(x, lowest);
  const auto clamped = hn::Max(x, lowest);
  const auto whole = hn::Round(clamped);
  const auto f = hn::Sub(clamped, whole);
  // Minimax polynomial of 2^f on [-1/2, 1/2] (Cephes, exp2f).
  auto p = hn::Set(d, 1.535336188319500e-4F);
  p = hn::MulAdd(p, f, hn::Set(d, 1.339887440266574e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 9.618437357674640e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550332471162809e-2F));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402264791363012e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931472028550421e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  return hn::IfThenElseZero(normal, hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent)));
}

/// tanh(x), absolute error below 3e-7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  const auto two = hn::Set(d, 2.0F);
  const auto magnitude = hn::Min(hn::Abs(x), hn::Set(d, 20.0F));
  const auto power = exp2(d, hn::Mul(magnitude, hn::Set(d, 2.885390081777927F)));  // 2 log2 e
  const auto result = hn::Sub(one, hn::Div(two, hn::Add(power, one)));
  return hn::CopySignToAbs(result, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#endif  // NEARKV_ATTEND_EXP2_INL_H_
