// A page's keys as scans take them: ranges of channels, the digest, the search planes.
#pragma once

#include "page_writer.hpp"

namespace nearkv::cuda {

NKV_KERNEL std::uint32_t greater(std::uint32_t a, std::uint32_t b) { return a < b ? b : a; }

/// Notes the largest exponent of a channel's elements.
template <typename Block>
NKV_KERNEL void note_exponent(PageWriter<Block>& page, PackedTensor tensor, std::uint32_t channel,
                              std::uint32_t exponent) {
  page.block.raise(&page.own.exponent[tensor], exponent);
  page.own.least[tensor][channel] = static_cast<std::uint8_t>(exponent < 15 ? 0 : exponent - 15);
}

/// Steps and exponents of the key channels, and the tokens that are not finite.
template <typename Block>
NKV_KERNEL void survey_keys(PageWriter<Block>& page) {
  for (std::uint32_t channel = page.block.thread(); channel < page.dim(kKeys);
       channel += kThreads) {
    float low = -minus_infinity();
    float high = minus_infinity();
    std::uint32_t nonfinite[2] = {};
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const float key = load_element(page.keys.at(token), channel, page.shape.dtype);
      nonfinite[token / 32] |= is_finite(key) ? 0U : 1U << token % 32;
      low = fminf(low, usable(key));
      high = fmaxf(high, usable(key));
    }
    for (unsigned i = 0; i < 2; ++i) {
      if (nonfinite[i] != 0) page.block.set(&page.own.nonfinite[i], nonfinite[i]);
    }
    const std::uint32_t number = smallest_step(low, high);
    page.own.low[channel] = low;
    page.own.number[channel] = number;
    page.block.raise(&page.own.coarsest, number);
    const std::uint32_t exponent = greater(biased_exponent(low), biased_exponent(high));
    note_exponent(page, kKeys, channel, exponent);
    const bool is_value = page.form(kValues) == NKV_ROW_FORM_NONE && channel < page.dim(kValues);
    if (is_value) page.block.raise(&page.own.exponent[kValues], exponent);
  }
}

/// K_DIGEST, and the steps that the planes are made with.
template <typename Block>
NKV_KERNEL void write_digest(PageWriter<Block>& page) {
  constexpr std::int32_t kMaxDelta = 31;
  const std::int32_t coarsest = page.own.step_exponent();
  const auto finest = static_cast<std::uint32_t>(coarsest - kMaxDelta + kStepExponentBias) << 3;
  page.template write<1>(NKV_PAGE_ARRAY_K_DIGEST, [&](std::uint32_t i, std::uint32_t* word) {
    *word = 0;
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t channel = 2 * i + half;
      const CellStep step = cell_step(greater(page.own.number[channel], finest));
      const std::int32_t base = base_of(page.own.low[channel], step);
      page.own.step[channel] = step;
      page.own.first_cell[channel] = base * NKV_CODE_BASE_STEP;
      const auto delta = static_cast<std::uint32_t>(coarsest - step.exponent);
      const std::uint32_t entry =
          (static_cast<std::uint32_t>(base) & 0xFFU) | (step.mantissa - 8) << 8 | delta << 11;
      *word |= entry << (16 * half);
    }
  });
}

/// K_PLANE0 to K_PLANE3: the upper bits of each key's code.
template <typename Block>
NKV_KERNEL void write_planes(PageWriter<Block>& page) {
  constexpr unsigned kCodes = 32;  // Of a word.
  const std::uint32_t dim = page.dim(kKeys);
  page.template write<NKV_KEY_PLANES>(
      NKV_PAGE_ARRAY_K_PLANE0, [&](std::uint32_t i, std::uint32_t* word) {
        for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) word[plane] = 0;
        for (unsigned at = 0; at < kCodes; at += kChunk) {
          const std::uint32_t element = i * kCodes + at;
          const std::uint32_t channel = element % dim;
          float keys[kChunk];
          load_usable(page.keys.at(element / dim), channel, page.shape.dtype, keys);
          NKV_UNROLL
          for (unsigned c = 0; c < kChunk; ++c) {
            const std::int32_t cell = cell_of(keys[c], page.own.step[channel + c]);
            const auto code = static_cast<std::uint32_t>(cell - page.own.first_cell[channel + c]);
            NKV_UNROLL
            for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
              word[plane] |= (code >> (7 - plane) & 1U) << (at + c);
            }
          }
        }
      });
}

}  // namespace nearkv::cuda
