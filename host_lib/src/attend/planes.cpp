#include "attend/planes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend/planes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "attend/plane_bits.hpp"
#include "attend/plane_sums-inl.h"

#ifndef NEARKV_ATTEND_PLANES_ONCE
#define NEARKV_ATTEND_PLANES_ONCE
namespace nearkv {

/// Channels of one digest as the fold uses them.
struct DigestChannels {
  std::int32_t m[NKV_MAX_HEAD_DIM];       ///< 8..15.
  std::int32_t shift[NKV_MAX_HEAD_DIM];   ///< 32 - g, 16 or more.
  std::int32_t centre[NKV_MAX_HEAD_DIM];  ///< 4 * base + 128.
};

inline PlaneBits plane_bits(const PageView& page, PlaneRange planes) {
  PlaneBits bits{};
  for (unsigned i = 0; i < planes.count; ++i) {
    bits.plane[i] = page.data<std::uint8_t>(
        static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + planes.first + i));
  }
  bits.row_bytes = page.header().head_dim / 8U;
  return bits;
}

}  // namespace nearkv
#endif

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

using IntTag = hn::CappedTag<std::int32_t, 16>;

/// Plane-stage weights (5): the product with the step's mantissa, shifted and rounded to nearest.
HWY_INLINE hn::Vec<IntTag> weigh(hn::Vec<IntTag> product, hn::Vec<IntTag> weight_shift) {
  const IntTag d;
  const auto half = hn::Shl(hn::Set(d, 1), hn::Sub(weight_shift, hn::Set(d, 1)));
  return hn::Shr(hn::Add(product, half), weight_shift);
}

/// From a shift of 29 on nothing is left of a 27-bit product.
HWY_INLINE hn::Vec<IntTag> weight_shift(hn::Vec<IntTag> shift) {
  return hn::Min(shift, hn::Set(IntTag(), 29));
}

void fold_row(const std::int32_t* HWY_RESTRICT query, const DigestChannels& digest, std::size_t dim,
              std::int16_t* HWY_RESTRICT weights, RowFold* row) {
  const IntTag d;
  const hn::RebindToUnsigned<IntTag> du;
  const hn::Rebind<std::int16_t, IntTag> d16;
  const auto one = hn::Set(d, 1);
  auto constant = hn::Zero(d);
  auto sum = hn::Zero(d);
  auto norm = hn::Zero(d);
  auto remainder = hn::Zero(d);
  auto squares = hn::Zero(d);
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto product = hn::Mul(hn::LoadU(d, query + c), hn::LoadU(d, digest.m + c));
    const auto shift = hn::LoadU(d, digest.shift + c);
    const auto centre = hn::LoadU(d, digest.centre + c);
    const auto weight = weigh(product, weight_shift(shift));
    const auto left = hn::Abs(hn::Sub(product, hn::Shl(weight, weight_shift(shift))));
    // In 2^-12 weight units, rounded up.
    const auto grain = hn::Min(hn::Sub(shift, hn::Set(d, 12)), hn::Set(d, 28));
    const auto part = hn::Shr(hn::Add(left, hn::Sub(hn::Shl(one, grain), one)), grain);
    constant = hn::Add(constant, hn::Mul(weight, centre));
    sum = hn::Add(sum, weight);
    norm = hn::Add(norm, hn::Abs(weight));
    remainder = hn::Add(remainder, hn::Mul(part, hn::Add(hn::Abs(centre), hn::Set(d, 128))));
    squares = hn::Add(squares, hn::Mul(weight, weight));  // Modulo 2^32, as wanted.
    hn::StoreU(hn::DemoteTo(d16, weight), d16, weights + c);
  }
  row->constant = hn::GetLane(hn::SumOfLanes(d, constant));
  row->weight_sum = hn::GetLane(hn::SumOfLanes(d, sum));
  row->weight_norm = hn::GetLane(hn::SumOfLanes(d, norm));
  row->slack = ((hn::GetLane(hn::SumOfLanes(d, remainder)) + 4095) >> 12) + 4;
  row->weight_squares = hn::GetLane(hn::SumOfLanes(du, hn::BitCast(du, squares)));
}

void weigh_row(const std::int32_t* HWY_RESTRICT query, const DigestChannels& digest,
               std::size_t dim, std::int16_t* HWY_RESTRICT weights) {
  const IntTag d;
  const hn::Rebind<std::int16_t, IntTag> d16;
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto product = hn::Mul(hn::LoadU(d, query + c), hn::LoadU(d, digest.m + c));
    const auto weight = weigh(product, weight_shift(hn::LoadU(d, digest.shift + c)));
    hn::StoreU(hn::DemoteTo(d16, weight), d16, weights + c);
  }
}

/// The digest's channels; `coarsest_shift` is 32 - g of a channel with delta 0.
void unpack_digest(const std::uint16_t* HWY_RESTRICT digest, int coarsest_shift, std::size_t dim,
                   DigestChannels* HWY_RESTRICT channels) {
  const IntTag d;
  const hn::Rebind<std::uint16_t, IntTag> d16;
  for (std::size_t c = 0; c < dim; c += hn::Lanes(d)) {
    const auto entry = hn::PromoteTo(d, hn::LoadU(d16, digest + c));
    const auto mantissa = hn::And(hn::ShiftRight<8>(entry), hn::Set(d, 7));
    const auto base = hn::ShiftRight<24>(hn::ShiftLeft<24>(entry));
    const auto shift = hn::Add(hn::ShiftRight<11>(entry), hn::Set(d, coarsest_shift));
    hn::StoreU(hn::Add(mantissa, hn::Set(d, 8)), d, channels->m + c);
    // A forged page may claim any exponent; its radius is void, but shifts must stay defined.
    hn::StoreU(hn::Max(hn::Min(shift, hn::Set(d, 1000)), hn::Set(d, 16)), d, channels->shift + c);
    hn::StoreU(hn::Add(hn::ShiftLeft<2>(base), hn::Set(d, 128)), d, channels->centre + c);
  }
}
static_assert(NKV_CODE_BASE_STEP == 4);

void fold_page_target(const Query& query, const std::uint16_t* digest, int coarsest_shift,
                      PageFold* fold) {
  DigestChannels channels;
  unpack_digest(digest, coarsest_shift, query.dim(), &channels);
  const bool weights_only = fold->rows.empty();
  for (std::size_t row = 0; row < query.rows(); ++row) {
    std::int16_t* const weights = fold->weights.data() + row * query.dim();
    if (weights_only) {
      weigh_row(query.aligned(row).data(), channels, query.dim(), weights);
    } else {
      fold_row(query.aligned(row).data(), channels, query.dim(), weights, &fold->rows[row]);
    }
  }
}

void plane_sums_target(const PageFold& fold, const PageView& page, PlaneRange planes,
                       std::uint64_t wanted, std::int32_t* sums) {
  plane_sums_generic(plane_bits(page, planes), planes.count, fold.weights.data(),
                     fold.weights.size() / fold.dim, fold.dim, wanted, sums);
}

MidpointRange store_midpoints_target(const RowFold& fold, const MidpointScale& scale,
                                     unsigned planes, std::uint64_t visible,
                                     const std::int32_t* HWY_RESTRICT sums,
                                     std::int16_t* HWY_RESTRICT mids) {
  const IntTag d;
  const hn::Rebind<std::int16_t, IntTag> d16;
  const std::int32_t origin = fold.midpoint(0, planes) - scale.reference;
  const auto offset = hn::Set(d, origin);
  const auto shift = hn::Set(d, static_cast<std::int32_t>(scale.shift));
  const auto code_shift = hn::Set(d, static_cast<std::int32_t>(8 - planes));
  const auto lowest = hn::Set(d, -kLargestMidpoint);
  auto largest = hn::Set(d, kMaskedMidpoint);
  auto least = hn::Set(d, kLargestMidpoint);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    const auto midpoint = hn::Add(hn::Shl(hn::LoadU(d, sums + t), code_shift), offset);
    auto mid = hn::Max(hn::Min(hn::Shr(midpoint, shift), hn::Set(d, kLargestMidpoint)), lowest);
    least = hn::Min(least, mid);
    if (visible != ~std::uint64_t{0}) {
      const std::uint64_t from_here = visible >> t;
      const auto* const bits = reinterpret_cast<const std::uint8_t*>(&from_here);
      mid = hn::IfThenElse(hn::LoadMaskBits(d, bits), mid, hn::Set(d, kMaskedMidpoint));
    }
    largest = hn::Max(largest, mid);
    hn::StoreU(hn::DemoteTo(d16, mid), d16, mids + t);
  }
  return {static_cast<std::int16_t>(hn::GetLane(hn::MinOfLanes(d, least))),
          static_cast<std::int16_t>(hn::GetLane(hn::MaxOfLanes(d, largest)))};
}

std::uint64_t at_least_target(const std::int16_t* HWY_RESTRICT mids, std::int16_t threshold) {
  const hn::CappedTag<std::int16_t, 32> d;
  const auto bound = hn::Set(d, threshold);
  std::uint64_t result = 0;
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    const auto mask = hn::Not(hn::Gt(bound, hn::LoadU(d, mids + t)));
    if (hn::AllFalse(d, mask)) continue;
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(&bits));
    result |= bits << t;
  }
  return result;
}

void sharpen_midpoints_target(const RowFold& fold, const MidpointScale& scale, unsigned planes,
                              std::uint64_t tokens, const std::int32_t* HWY_RESTRICT sums,
                              std::int16_t* HWY_RESTRICT mids) {
  const IntTag d;
  const hn::Rebind<std::int16_t, IntTag> d16;
  const auto weight_sum = hn::Set(d, fold.weight_sum);
  const auto cell_shift = hn::Set(d, static_cast<std::int32_t>(7 - planes));
  const auto shift = hn::Set(d, static_cast<std::int32_t>(scale.shift));
  const auto largest = hn::Set(d, kLargestMidpoint);
  const auto lowest = hn::Set(d, -kLargestMidpoint);
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += hn::Lanes(d)) {
    const std::uint64_t from_here = tokens >> t;
    if ((from_here & ((std::uint64_t{1} << hn::Lanes(d)) - 1)) == 0) continue;
    const auto mid = hn::PromoteTo(d, hn::LoadU(d16, mids + t));
    const auto sum = hn::LoadU(d, sums + t);
    const auto difference = hn::Shl(hn::Sub(hn::Add(sum, sum), weight_sum), cell_shift);
    const auto moved = hn::Add(mid, hn::Shr(difference, shift));
    const auto sharpened = hn::Max(hn::Min(moved, largest), lowest);
    const auto open =
        hn::And(hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&from_here)),
                hn::Ne(mid, largest));
    hn::StoreU(hn::DemoteTo(d16, hn::IfThenElse(open, sharpened, mid)), d16, mids + t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(fold_page_target);
HWY_EXPORT(plane_sums_target);
HWY_EXPORT(sharpen_midpoints_target);
HWY_EXPORT(store_midpoints_target);
HWY_EXPORT(at_least_target);

MidpointScale MidpointScale::from_reference(const RowFold& fold) {
  const auto reach =
      std::uint64_t{1024} * static_cast<std::uint64_t>(std::max(fold.weight_norm, 1));
  const unsigned bits = static_cast<unsigned>(std::bit_width(reach));
  return {fold.constant, bits > 15 ? bits - 15 : 0};
}

MidpointRange store_midpoints(const RowFold& fold, const MidpointScale& scale, unsigned planes,
                              std::uint64_t visible, const std::int32_t* sums, std::int16_t* mids) {
  return HWY_DYNAMIC_DISPATCH(store_midpoints_target)(fold, scale, planes, visible, sums, mids);
}

std::uint64_t at_least(const std::int16_t* mids, std::int16_t threshold) {
  return HWY_DYNAMIC_DISPATCH(at_least_target)(mids, threshold);
}

std::int32_t RowFold::radius(unsigned planes, unsigned z16) const {
  const std::uint64_t cell = std::uint64_t{128U >> planes} * static_cast<unsigned>(weight_norm);
  // The least bound with 3072 bound^2 >= wanted: binary64's root is off by one at most.
  const std::uint64_t wanted = std::uint64_t{z16} * z16 * weight_squares << 2 * (8 - planes);
  auto bound = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(wanted) / 3072.0));
  while (3072 * bound * bound < wanted) ++bound;
  while (bound > 0 && 3072 * (bound - 1) * (bound - 1) >= wanted) --bound;
  return static_cast<std::int32_t>(std::min(bound, cell)) + slack;
}

namespace {

void fold_into(const Query& query, const PageView& page, int key_exponent, PageFold* fold) {
  fold->dim = query.dim();
  fold->weights.resize(query.rows() * query.dim());
  const int coarsest_shift = 32 - (page.header().k_step_exponent - key_exponent + 152);
  HWY_DYNAMIC_DISPATCH(fold_page_target)
  (query, page.data<std::uint16_t>(NKV_PAGE_ARRAY_K_DIGEST), coarsest_shift, fold);
}

}  // namespace

void fold_page(const Query& query, const PageView& page, int key_exponent, PageFold* fold) {
  fold->rows.resize(query.rows());
  fold_into(query, page, key_exponent, fold);
}

void fold_weights(const Query& query, const PageView& page, int key_exponent, PageFold* fold) {
  fold->rows.clear();
  fold_into(query, page, key_exponent, fold);
}

void plane_sums(const PageFold& fold, const PageView& page, PlaneRange planes, std::uint64_t wanted,
                std::int32_t* sums) {
  if (has_plane_sums_vnni(fold.dim)) {
    plane_sums_vnni(plane_bits(page, planes), planes.count, fold.weights.data(),
                    fold.weights.size() / fold.dim, fold.dim, wanted, sums);
    return;
  }
  HWY_DYNAMIC_DISPATCH(plane_sums_target)(fold, page, planes, wanted, sums);
}

void sharpen_midpoints(const RowFold& fold, const MidpointScale& scale, unsigned planes,
                       std::uint64_t tokens, const std::int32_t* sums, std::int16_t* mids) {
  HWY_DYNAMIC_DISPATCH(sharpen_midpoints_target)(fold, scale, planes, tokens, sums, mids);
}

}  // namespace nearkv
#endif  // HWY_ONCE
