#include "codes/code_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codes/code_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using CodeTag = hn::CappedTag<std::int16_t, kCodeLanes>;
using ShortCodeTag = hn::CappedTag<std::int16_t, 16>;
constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
constexpr int kLengthBits = 14;

void fix_rows_target(const float* HWY_RESTRICT rows, std::size_t stride, std::size_t dim,
                     float first, const float* HWY_RESTRICT second,
                     std::int16_t* HWY_RESTRICT fixed, std::int32_t* HWY_RESTRICT sum) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::int16_t, decltype(d)> d16;
  const std::size_t padded = padded_channels(dim);
  const auto common = hn::Set(d, first);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto own = hn::LoadU(d, second + c);
    auto total = hn::Zero(di);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto scaled = hn::Mul(hn::Mul(hn::LoadU(d, rows + t * stride + c), common), own);
      const auto number = hn::ConvertTo(di, scaled);  // Truncates.
      total = hn::Add(total, number);
      hn::StoreU(hn::DemoteTo(d16, number), d16, fixed + t * padded + c);
    }
    hn::StoreU(total, di, sum + c);
  }
  for (std::size_t t = 0; t < kTokens && dim != padded; ++t) {
    std::fill(fixed + t * padded + dim, fixed + (t + 1) * padded, std::int16_t{0});
  }
}

/// Adds products of 16-bit numbers to sums of 32 bits, whichever of them.
template <class D, class V32>
HWY_INLINE V32 add_products(D, hn::Vec<D> a, hn::Vec<D> b, V32 sum) {
  const hn::Repartition<std::int32_t, D> d32;
  auto rest = hn::Zero(d32);
  sum = hn::ReorderWidenMulAccumulate(d32, a, b, sum, rest);
  return hn::Add(sum, rest);
}

template <class D, class V32>
HWY_INLINE V32 add_magnitudes(D d, hn::Vec<D> values, V32 sum) {
  return add_products(d, hn::Abs(values), hn::Set(d, 1), sum);
}

/// swapped + value where `upper` is 0, swapped - value where it is -1.
template <class V>
HWY_INLINE V add_or_subtract(V value, V swapped, V upper) {
  return hn::Add(hn::Xor(value, upper), hn::Sub(swapped, upper));
}

/// Which lanes are the upper ones of pairs `half` apart: -1, else 0.
template <class D>
HWY_INLINE hn::Vec<D> upper_lanes(D d, std::int16_t half) {
  const auto bit = hn::Set(d, half);
  return hn::VecFromMask(d, hn::Eq(hn::And(hn::Iota(d, 0), bit), bit));
}

/// The stages of a Hadamard transform inside of each vector.
template <class D>
struct LaneStages {
  hn::Vec<D> upper1, upper2, upper4, upper8, upper16;

  HWY_INLINE explicit LaneStages(D d)
      : upper1(upper_lanes(d, 1)),
        upper2(upper_lanes(d, 2)),
        upper4(upper_lanes(d, 4)),
        upper8(upper_lanes(d, 8)),
        upper16(upper_lanes(d, 16)) {}

  HWY_INLINE hn::Vec<D> apply(D d, hn::Vec<D> v) const {
    const hn::Repartition<std::uint32_t, D> d32;
    v = add_or_subtract(v, hn::Reverse2(d, v), upper1);
    v = add_or_subtract(v, hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, v))), upper2);
    v = add_or_subtract(v, hn::BitCast(d, hn::Shuffle1032(hn::BitCast(d32, v))), upper4);
#if HWY_TARGET <= HWY_AVX2
    if (hn::MaxLanes(d) >= 16) v = add_or_subtract(v, hn::SwapAdjacentBlocks(v), upper8);
    if (hn::MaxLanes(d) >= 32) {
      v = add_or_subtract(v, hn::SwapAdjacentBlocks(hn::ReverseBlocks(d, v)), upper16);
    }
#endif
    return v;
  }
};

/// One stage across vectors.
template <class D>
HWY_INLINE void cross(D d, std::int16_t* HWY_RESTRICT z, std::size_t size, std::size_t half) {
  for (std::size_t group = 0; group < size; group += 2 * half) {
    for (std::size_t i = group; i < group + half; i += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, z + i);
      const auto b = hn::LoadU(d, z + i + half);
      hn::StoreU(hn::Add(a, b), d, z + i);
      hn::StoreU(hn::Sub(a, b), d, z + i + half);
    }
  }
}

/// Two stages across vectors, `half` and 2 * half.
template <class D>
HWY_INLINE void cross_twice(D d, std::int16_t* HWY_RESTRICT z, std::size_t size, std::size_t half) {
  for (std::size_t group = 0; group < size; group += 4 * half) {
    for (std::size_t i = group; i < group + half; i += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, z + i);
      const auto b = hn::LoadU(d, z + i + half);
      const auto c = hn::LoadU(d, z + i + 2 * half);
      const auto e = hn::LoadU(d, z + i + 3 * half);
      const auto sum1 = hn::Add(a, b);
      const auto difference1 = hn::Sub(a, b);
      const auto sum2 = hn::Add(c, e);
      const auto difference2 = hn::Sub(c, e);
      hn::StoreU(hn::Add(sum1, sum2), d, z + i);
      hn::StoreU(hn::Add(difference1, difference2), d, z + i + half);
      hn::StoreU(hn::Sub(sum1, sum2), d, z + i + 2 * half);
      hn::StoreU(hn::Sub(difference1, difference2), d, z + i + 3 * half);
    }
  }
}

/// Hadamard transform of a block of at least a vector.
template <class D>
HWY_INLINE void transform_block(D d, std::int16_t* HWY_RESTRICT z, std::size_t size) {
  const LaneStages<D> stages(d);
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) {
    hn::StoreU(stages.apply(d, hn::LoadU(d, z + i)), d, z + i);
  }
  std::size_t half = hn::Lanes(d);
  for (; 4 * half <= size; half *= 4) cross_twice(d, z, size, half);
  if (half < size) cross(d, z, size, half);
}

HWY_INLINE void transform_row(std::int16_t* HWY_RESTRICT z, std::size_t dim) {
  for (std::size_t at = 0; at < dim;) {
    const CodeBlock block = code_block(dim, at);
    // NOLINTNEXTLINE(bugprone-branch-clone): the tags differ where vectors are wide.
    if (block.size >= kCodeLanes) {
      transform_block(CodeTag(), z + at, block.size);
    } else {
      transform_block(ShortCodeTag(), z + at, block.size);
    }
    if (block.scale != 0) {
      const ShortCodeTag d;
      for (std::size_t i = at; i < at + block.size; i += hn::Lanes(d)) {
        hn::StoreU(hn::MulFixedPoint15(hn::LoadU(d, z + i), hn::Set(d, block.scale)), d, z + i);
      }
    }
    at += block.size;
  }
}

/// Residual of a row, scaled and with signs; its shift n. False if it is zero.
HWY_INLINE bool load_residual(const std::int16_t* HWY_RESTRICT row, const RowCoding& coding,
                              std::int16_t* HWY_RESTRICT z, int* shift) {
  const CodeTag d;
  const hn::Repartition<std::int32_t, CodeTag> d32;
  const std::size_t padded = padded_channels(coding.dim);
  auto sums = hn::Zero(d32);
  for (std::size_t c = 0; c < padded; c += hn::Lanes(d)) {
    const auto residual = hn::Sub(hn::LoadU(d, row + c), hn::LoadU(d, coding.mean + c));
    hn::StoreU(residual, d, z + c);
    sums = add_magnitudes(d, residual, sums);
  }
  const auto length = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d32, sums)));
  if (length == 0) return false;
  *shift = kLengthBits - static_cast<int>(std::bit_width(length));
  const auto one = hn::Set(d, 1);
  for (std::size_t c = 0; c < padded; c += hn::Lanes(d)) {
    auto value = hn::LoadU(d, z + c);
    if (*shift >= 0) {
      value = hn::ShiftLeftSame(value, *shift);
    } else {
      value = hn::ShiftRight<1>(hn::Add(hn::ShiftRightSame(value, -*shift - 1), one));
    }
    const auto minus = hn::LoadU(d, coding.minus + c);
    hn::StoreU(hn::Sub(hn::Xor(value, minus), minus), d, z + c);
  }
  return true;
}

/// 2^16 cells per unit of z.
HWY_INLINE std::int16_t cell_scale(const std::int16_t* HWY_RESTRICT z, const RowCoding& coding) {
  const CodeTag d;
  const hn::Repartition<std::int32_t, CodeTag> d32;
  auto sums = hn::Zero(d32);
  for (std::size_t c = 0; c < padded_channels(coding.dim); c += hn::Lanes(d)) {
    sums = add_magnitudes(d, hn::LoadU(d, z + c), sums);
  }
  const auto sum = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d32, sums)));
  const auto wanted =
      static_cast<std::uint32_t>(coding.form->cells_per_z) * static_cast<std::uint32_t>(coding.dim);
  return static_cast<std::int16_t>(sum == 0 ? 0 : std::min(wanted / sum, 32767U));
}

/// Cells of a row, moved to 0 .. 2^B - 1, and what its factor is made of.
HWY_INLINE void quantise_row(const std::int16_t* HWY_RESTRICT z, const RowCoding& coding,
                             std::uint8_t* HWY_RESTRICT cells, RowFit* fit) {
  const CodeTag d;
  const hn::Repartition<std::int32_t, CodeTag> d32;
  const hn::Rebind<std::uint8_t, CodeTag> d8;
  const auto scale = hn::Set(d, cell_scale(z, coding));
  const auto half = static_cast<std::int16_t>(1 << (coding.form->planes - 1));
  const auto lowest = hn::Set(d, static_cast<std::int16_t>(-half));
  const auto highest = hn::Set(d, static_cast<std::int16_t>(half - 1));
  const auto offset = hn::Set(d, half);
  const auto one = hn::Set(d, 1);
  const auto eight = hn::Set(d, 8);
  auto energy = hn::Zero(d32);
  auto product = hn::Zero(d32);
  for (std::size_t c = 0; c < padded_channels(coding.dim); c += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, z + c);
    const auto cell = hn::Min(hn::Max(hn::MulHigh(value, scale), lowest), highest);
    const auto coarse = hn::ShiftRight<4>(hn::Add(value, eight));
    energy = add_products(d, coarse, coarse, energy);
    product = add_products(d, coarse, hn::Add(hn::Add(cell, cell), one), product);
    hn::StoreU(hn::DemoteTo(d8, hn::Add(cell, offset)), d8, cells + c);
  }
  fit->energy = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d32, energy)));
  fit->product = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(d32, product)));
}

HWY_INLINE void pack_row(const std::uint8_t* HWY_RESTRICT cells, std::size_t dim, int planes,
                         std::size_t token, std::uint8_t* const out[4]) {
  const hn::CappedTag<std::uint8_t, kCodeLanes> d;
  // StoreMaskBits may write past a short mask; this holds the spill.
  std::uint8_t bits[kMaxCodeChannels / 8 + 8];
  for (int plane = 0; plane < planes; ++plane) {
    const auto bit = hn::Set(d, static_cast<std::uint8_t>(1 << (planes - 1 - plane)));
    for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
      hn::StoreMaskBits(d, hn::TestBit(hn::Load(d, cells + c), bit), bits + c / 8);
    }
    std::memcpy(out[plane] + token * (dim / 8), bits, dim / 8);
  }
}

void code_rows_target(const std::int16_t* HWY_RESTRICT fixed, const RowCoding& coding,
                      std::uint8_t* const planes[4], std::array<RowFit, kTokens>* fits) {
  HWY_ALIGN std::int16_t z[kMaxCodeChannels];
  HWY_ALIGN std::uint8_t cells[kMaxCodeChannels];
  const std::size_t padded = padded_channels(coding.dim);
  for (std::size_t t = 0; t < kTokens; ++t) {
    RowFit& fit = (*fits)[t];
    fit = {};
    if (load_residual(fixed + t * padded, coding, z, &fit.shift)) {
      transform_row(z, coding.dim);
    } else {
      std::fill_n(z, padded, std::int16_t{0});
    }
    quantise_row(z, coding, cells, &fit);
    pack_row(cells, coding.dim, coding.form->planes, t, planes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(fix_rows_target);
HWY_EXPORT(code_rows_target);

void fix_rows(const float* rows, std::size_t stride, std::size_t dim, float first,
              const float* second, std::int16_t* fixed, std::int32_t* sum) {
  HWY_DYNAMIC_DISPATCH(fix_rows_target)(rows, stride, dim, first, second, fixed, sum);
}

void code_rows(const std::int16_t* fixed, const RowCoding& coding, std::uint8_t* const planes[4],
               std::array<RowFit, NKV_PAGE_TOKENS>* fits) {
  HWY_DYNAMIC_DISPATCH(code_rows_target)(fixed, coding, planes, fits);
}

}  // namespace nearkv
#endif  // HWY_ONCE
