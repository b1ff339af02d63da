// Scores of tokens by more planes (ARITHMETIC.md, section 12.3).
#include <array>

#include "codes/page_kernels_portable.hpp"

namespace nearkv::portable {
namespace {

void refined_sums(const PlaneRows& keys, const WeightRows& weights, std::int32_t* sums) {
  for_each_refined(keys, NKV_KEY_CODE_PLANES, [&](std::size_t token, int planes) {
    for (std::size_t row = 0; row < weights.rows; ++row) {
      const std::int16_t* const own = weights.weights + row * weights.padded;
      std::int32_t sum = 0;
      for (int plane = 0; plane < planes; ++plane) {
        sum *= 2;
        for (std::size_t c = 0; c < keys.dim; ++c) {
          sum += is_set(keys, plane, token, c) ? own[c] : -own[c];
        }
      }
      sums[row * kTokens + token] = sum;
    }
  });
}

void rescore(const std::int32_t* sums, const std::uint8_t* factors, const std::uint64_t* tokens,
             const RefinedRow* refined, std::size_t rows, std::int16_t* above) {
  std::array<std::uint8_t, kTokens> own;
  unpack_factors(factors, own.data());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t planes = 2; planes <= NKV_KEY_CODE_PLANES; ++planes) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        if (!has(tokens[planes], t)) continue;
        const std::int32_t m = own[t] == 0 ? 0 : refined[row].multipliers[planes][own[t]];
        const std::int32_t residual = (sums[row * kTokens + t] * m + (1 << 11)) >> 12;
        above[row * kTokens + t] = static_cast<std::int16_t>(residual + refined[row].fraction);
      }
    }
  }
}

}  // namespace

void set_refine_kernels(PageKernels* kernels) {
  kernels->refined_sums = refined_sums;
  kernels->rescore = rescore;
}

}  // namespace nearkv::portable
