#include "codes/tokens_reaching.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codes/tokens_reaching.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nearkv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Bytes = hn::Full128<std::uint8_t>;  // A table of kFactors of them is a vector.
using Numbers = hn::Full128<std::int16_t>;

/// Sets bit i % 8 of bits[i / 8] where scores[i] is above the number of the low and high bytes at
/// factors[i], for 16 tokens.
HWY_INLINE void compare(const std::int16_t* HWY_RESTRICT scores, hn::Vec<Bytes> factors,
                        hn::Vec<Bytes> low, hn::Vec<Bytes> high, std::uint8_t* bits) {
  const Bytes d;
  const Numbers dn;
  const auto low_bytes = hn::TableLookupBytes(low, factors);
  const auto high_bytes = hn::TableLookupBytes(high, factors);
  const auto first = hn::BitCast(dn, hn::InterleaveLower(d, low_bytes, high_bytes));
  const auto last = hn::BitCast(dn, hn::InterleaveUpper(d, low_bytes, high_bytes));
  hn::StoreMaskBits(dn, hn::Gt(hn::LoadU(dn, scores), first), bits);
  hn::StoreMaskBits(dn, hn::Gt(hn::LoadU(dn, scores + hn::Lanes(dn)), last), bits + 1);
}

std::uint64_t tokens_above_target(const std::int16_t* HWY_RESTRICT scores,
                                  const std::uint8_t* HWY_RESTRICT factors,
                                  const std::uint8_t* HWY_RESTRICT low_bytes,
                                  const std::uint8_t* HWY_RESTRICT high_bytes) {
  const Bytes d;
  const auto low = hn::LoadU(d, low_bytes);
  const auto high = hn::LoadU(d, high_bytes);
  const std::size_t lanes = hn::Lanes(d);
  std::uint8_t bits[NKV_PAGE_TOKENS / 8];
  for (std::size_t t = 0; t < NKV_PAGE_TOKENS; t += 2 * lanes) {
    const auto pairs = hn::LoadU(d, factors + t / 2);
    const auto even = hn::And(pairs, hn::Set(d, 15));
    const auto odd = hn::ShiftRight<4>(pairs);
    compare(scores + t, hn::InterleaveLower(d, even, odd), low, high, bits + t / 8);
    compare(scores + t + lanes, hn::InterleaveUpper(d, even, odd), low, high,
            bits + (t + lanes) / 8);
  }
  std::uint64_t tokens = 0;
  std::memcpy(&tokens, bits, sizeof(bits));
  return tokens;
}

}  // namespace HWY_NAMESPACE
}  // namespace nearkv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearkv {

HWY_EXPORT(tokens_above_target);

std::uint64_t tokens_reaching(std::span<const std::int16_t, NKV_PAGE_TOKENS> scores,
                              const std::uint8_t* factors,
                              std::span<const std::int64_t, kFactors> least) {
  using Limits = std::numeric_limits<std::int16_t>;
  std::array<std::uint8_t, kFactors> low;
  std::array<std::uint8_t, kFactors> high;
  for (std::size_t factor = 0; factor < kFactors; ++factor) {
    const auto below = std::clamp<std::int64_t>(least[factor] - 1, Limits::min(), Limits::max());
    low[factor] = static_cast<std::uint8_t>(below & 0xFF);
    high[factor] = static_cast<std::uint8_t>(below >> 8 & 0xFF);
  }
  return HWY_DYNAMIC_DISPATCH(tokens_above_target)(scores.data(), factors, low.data(), high.data());
}

}  // namespace nearkv
#endif  // HWY_ONCE
