// What a page remembers of its values besides their rows.
#pragma once

#include "pack_keys.hpp"

namespace nearkv::cuda {

/// Exponents of value channels that are stored; of others survey_keys() has them.
template <typename Block>
NKV_KERNEL void survey_values(PageWriter<Block>& page) {
  if (page.form(kValues) == NKV_ROW_FORM_NONE) return;
  for (std::uint32_t channel = page.block.thread(); channel < page.dim(kValues);
       channel += kThreads) {
    std::uint32_t exponent = 0;
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const float value = load_element(page.values.at(token), channel, page.shape.dtype);
      exponent = greater(exponent, biased_exponent(usable(value)));
    }
    note_exponent(page, kValues, channel, exponent);
  }
}

/// A usable value in units of 2^(top - 150), towards zero.
NKV_KERNEL std::int32_t value_integer(float value, std::uint32_t top) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t exponent = biased_exponent(value);
  const std::uint32_t shift = top - exponent;
  if (exponent == 0 || shift > 23) return 0;
  const auto magnitude = static_cast<std::int32_t>(((bits & 0x7FFFFFU) | 0x800000U) >> shift);
  return (bits >> 31) != 0 ? -magnitude : magnitude;
}

/// V_SUM, and 64 times the squares of values less the squares of their sums: integers, whose order
/// does not matter.
template <typename Block>
NKV_KERNEL void write_value_sums(PageWriter<Block>& page) {
  const std::uint32_t top = page.own.exponent[kValues];
  std::int64_t numerator = 0;
  page.template write<1>(NKV_PAGE_ARRAY_V_SUM, [&](std::uint32_t channel, std::uint32_t* word) {
    std::int32_t sum = 0;
    std::int32_t coarse_sum = 0;
    std::int64_t squares = 0;
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const float value = usable(load_element(page.values.at(token), channel, page.shape.dtype));
      const std::int32_t aligned = value_integer(value, top);
      const std::int32_t coarse = aligned >> 9;
      sum += aligned;
      coarse_sum += coarse;
      squares += std::int64_t{coarse} * coarse;
    }
    numerator += NKV_PAGE_TOKENS * squares - std::int64_t{coarse_sum} * coarse_sum;
    *word = static_cast<std::uint32_t>(sum);
  });
  page.block.add(&page.own.numerator, static_cast<std::uint64_t>(numerator));
}

/// v_residual of that number, once all threads have added to it.
NKV_KERNEL float value_residual(const PackWorkspace& own) {
  const auto top = static_cast<std::int32_t>(own.exponent[kValues]);
  return static_cast<float>(ldexp(static_cast<double>(own.numerator), 2 * (top - 141) - 12));
}

}  // namespace nearkv::cuda
