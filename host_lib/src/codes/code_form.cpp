#include "codes/code_form.hpp"

#include <algorithm>

#include "mix.hpp"

namespace nearkv {
namespace {

using Signs = std::array<std::array<std::int16_t, NKV_MAX_HEAD_DIM>, NKV_SIGN_SETS>;

Signs make_signs() {
  Signs signs{};
  for (std::uint32_t set = 0; set < signs.size(); ++set) {
    for (std::uint32_t channel = 0; channel < NKV_MAX_HEAD_DIM; ++channel) {
      const std::uint32_t word =
          mix(0x9E3779B9U * (NKV_MAX_HEAD_DIM / 32 * set + channel / 32 + 1));
      signs[set][channel] =
          static_cast<std::int16_t>(-static_cast<int>(word >> (channel % 32) & 1U));
    }
  }
  return signs;
}

/// ceil(2^15 * 2^(i/16)), i = 1..15; what no 16 bits reach, behind them.
constexpr std::array<std::uint32_t, 16> kSteps = {34219, 35734, 37316, 38968, 40694, 42495,
                                                  44377, 46341, 48393, 50536, 52773, 55109,
                                                  57549, 60097, 62758, 65536};

}  // namespace

int log2_sixteenths(std::uint64_t value) {
  const auto bits = static_cast<int>(std::bit_width(value));
  const auto top =
      static_cast<std::uint32_t>(bits > 16 ? value >> (bits - 16) : value << (16 - bits));
  // Between two of these, which lie a 32nd of an octave's mantissa apart, there is at most one
  // step.
  constexpr auto kFirst = [] {
    std::array<std::uint8_t, 32> first{};
    for (std::size_t i = 0; i < first.size(); ++i) {
      while (kSteps[first[i]] <= (32 + i) << 10) ++first[i];
    }
    return first;
  }();
  const unsigned first = kFirst[(top >> 10) - 32];
  return 16 * (bits - 1) + static_cast<int>(first + (top >= kSteps[first] ? 1U : 0U));
}

std::span<const std::int16_t, NKV_MAX_HEAD_DIM> minus_signs(unsigned set) {
  static const Signs signs = make_signs();
  return signs[set];
}

}  // namespace nearkv
