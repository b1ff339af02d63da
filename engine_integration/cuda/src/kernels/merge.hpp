// (O, LSE) of many parts of an attention as those of the whole, to the same bits in any order.
#pragma once

#include "nearkv_cuda.h"
#include "numbers.hpp"

namespace nearkv::cuda {

/// A thread merges an element. Weights and weighted values are rounded once, to fractions of the
/// largest, and added as integers: sums that know no order. A part with an LSE of -infinity is not
/// read any further; what is not finite comes out as a plain sum of it would.
class Merge {
 public:
  explicit Merge(const nearkv_cuda_merge_args& args) : args_(args) {}

  [[nodiscard]] Grid grid() const {
    return {(args_.rows * args_.value_dim + kThreads - 1) / kThreads, 0};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const std::uint64_t element = std::uint64_t{block.index()} * kThreads + block.thread();
    const std::uint64_t row = element / args_.value_dim;
    const auto channel = static_cast<std::uint32_t>(element % args_.value_dim);
    if (row >= args_.rows) return;
    float greatest = minus_infinity();
    bool is_nan = false;
    for_each_part(row, 0, [&](float lse, const float*) {
      greatest = fmaxf(greatest, lse);
      is_nan |= lse != lse;
    });
    if (is_nan || greatest == minus_infinity()) {
      args_.output[element] = is_nan ? not_a_number() : 0;
      if (channel == 0) args_.lse[row] = is_nan ? not_a_number() : greatest;
      return;
    }
    const float peak = largest_product(row, channel, greatest);
    const int shift = peak == 0 ? 0 : kFractionBits - ilogbf(peak);
    std::int64_t weights = 0;
    std::int64_t values = 0;
    float special = 0;
    for_each_part(row, channel, [&](float lse, const float* output) {
      const float weight = weight_of(lse, greatest);
      const float product = weight * *output;
      weights += llrintf(ldexpf(weight, kFractionBits));
      if (is_finite(product)) {
        values += llrintf(ldexpf(product, shift));
      } else {
        special += product;
      }
    });
    const double quotient = static_cast<double>(values) / static_cast<double>(weights);
    const auto merged = static_cast<float>(ldexp(quotient, kFractionBits - shift));
    args_.output[element] = special == 0 ? merged : special;
    if (channel == 0) {
      const double sum = ldexp(static_cast<double>(weights), -kFractionBits);
      args_.lse[row] = greatest + static_cast<float>(log(sum));
    }
  }

 private:
  // The largest product has so many bits below its first one; 2^22 parts fit 64.
  static constexpr int kFractionBits = 40;

  [[nodiscard]] NKV_KERNEL static float weight_of(float lse, float greatest) {
    return lse == greatest ? 1 : exp2f((lse - greatest) * kLog2E);
  }

  [[nodiscard]] NKV_KERNEL float largest_product(std::uint64_t row, std::uint32_t channel,
                                                 float greatest) const {
    float peak = 0;
    for_each_part(row, channel, [&](float lse, const float* output) {
      const float product = fabsf(weight_of(lse, greatest) * *output);
      if (is_finite(product)) peak = fmaxf(peak, product);
    });
    return peak;
  }

  /// visit(lse, output) of each part that saw something, `output` being that of the channel.
  template <typename Visit>
  NKV_KERNEL void for_each_part(std::uint64_t row, std::uint32_t channel, Visit&& visit) const {
    for (unsigned s = 0; s < args_.sources; ++s) {
      const nearkv_cuda_parts& source = args_.source[s];
      for (std::uint64_t part = 0; part < source.count; ++part) {
        const std::uint64_t index = part * args_.rows + row;
        const float lse = source.lse[index];
        if (lse != minus_infinity()) visit(lse, source.output + index * args_.value_dim + channel);
      }
    }
  }

  nearkv_cuda_merge_args args_;
};

}  // namespace nearkv::cuda
