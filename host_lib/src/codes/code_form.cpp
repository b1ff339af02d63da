#include "codes/code_form.hpp"

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

}  // namespace

std::span<const std::int16_t, NKV_MAX_HEAD_DIM> minus_signs(unsigned set) {
  static const Signs signs = make_signs();
  return signs[set];
}

}  // namespace nearkv
