// Exact rows into a page: as they are, or in DELTA4 with its exponents and exceptions.
#pragma once

#include "page_writer.hpp"

namespace nearkv::cuda {

/// Whether DELTA4 holds the pattern of a number other than zero.
NKV_KERNEL bool is_held(std::uint32_t pattern, std::uint8_t least) {
  const std::uint32_t exponent = pattern >> 7 & 0xFFU;
  return exponent > least && exponent <= least + 15U;
}

/// Signs and mantissas of four channels; what DELTA4 does not hold is noted as an exception.
template <typename Block>
NKV_KERNEL std::uint32_t pack_fractions(PageWriter<Block>& page, PackedTensor tensor,
                                        std::uint32_t token, std::uint32_t channel) {
  std::uint16_t patterns[4];
  memcpy(patterns, page.rows(tensor).at(token) + std::size_t{channel} * 2, sizeof(patterns));
  std::uint32_t word = 0;
  for (unsigned c = 0; c < 4; ++c) {
    const std::uint32_t pattern = patterns[c];
    const bool is_zero = (pattern & 0x7FFFU) == 0;
    if (is_zero || is_held(pattern, page.own.least[tensor][channel + c])) {
      word |= ((pattern >> 8 & 0x80U) | (pattern & 0x7FU)) << (8 * c);
      continue;
    }
    const std::uint32_t place = page.block.add(&page.own.exceptions[tensor], 1U);
    if (place >= NKV_EXCEPTIONS) continue;
    page.own.found[tensor][place] = {
        static_cast<std::uint16_t>(token * page.dim(tensor) + channel + c), patterns[c]};
  }
  return word;
}

/// Exponents of eight channels, above the least.
NKV_KERNEL std::uint32_t pack_nibbles(const std::uint8_t* least, const std::byte* row,
                                      std::uint32_t channel) {
  const Words4 patterns = *reinterpret_cast<const Words4*>(row + std::size_t{channel} * 2);
  std::uint32_t word = 0;
  for (unsigned c = 0; c < kChunk; ++c) {
    const std::uint32_t pattern = patterns.word[c / 2] >> (c % 2 * 16) & 0xFFFFU;
    const std::uint8_t base = least[channel + c];
    if (is_held(pattern, base)) word |= ((pattern >> 7 & 0xFFU) - base) << (4 * c);
  }
  return word;
}

/// K_ROWS or V_ROWS, and with DELTA4 the exponents; the exceptions are found.
template <typename Block>
NKV_KERNEL void write_rows(PageWriter<Block>& page, PackedTensor tensor) {
  const unsigned to = page.array(tensor, NKV_PAGE_ARRAY_K_ROWS);
  const PackedRows& rows = page.rows(tensor);
  const std::uint32_t row_words = page.layout.bytes[to] / (NKV_PAGE_TOKENS * page.kWordBytes);
  if (page.form(tensor) == NKV_ROW_FORM_RAW) {
    page.template write<1>(to, [&](std::uint32_t i, std::uint32_t* word) {
      const std::byte* const row = rows.at(i / row_words);
      *word = reinterpret_cast<const std::uint32_t*>(row)[i % row_words];
    });
    return;
  }
  const std::uint8_t* const least = page.own.least[tensor];
  page.template write<1>(page.array(tensor, NKV_PAGE_ARRAY_K_EXPONENTS),
                         [&](std::uint32_t i, std::uint32_t* word) {
                           memcpy(word, least + std::size_t{i} * sizeof(*word), sizeof(*word));
                         });
  const std::uint32_t fraction_words = page.dim(tensor) / 4;
  page.template write<1>(to, [&](std::uint32_t i, std::uint32_t* word) {
    const std::uint32_t token = i / row_words;
    const std::uint32_t at = i % row_words;
    *word = at < fraction_words ? pack_fractions(page, tensor, token, 4 * at)
                                : pack_nibbles(least, rows.at(token), 8 * (at - fraction_words));
  });
}

/// K_EXCEPTIONS or V_EXCEPTIONS, by ascending element in whichever order they were found.
template <typename Block>
NKV_KERNEL void write_exceptions(PageWriter<Block>& page, PackedTensor tensor) {
  const std::uint32_t count = page.own.exceptions[tensor];
  if (page.form(tensor) != NKV_ROW_FORM_DELTA4 || count > NKV_EXCEPTIONS) return;
  const nkv_row_exception* const found = page.own.found[tensor];
  page.template write<1>(page.array(tensor, NKV_PAGE_ARRAY_K_EXCEPTIONS),
                         [&](std::uint32_t i, std::uint32_t* word) {
                           *word = 0;
                           for (std::uint32_t one = 0; one < count; ++one) {
                             std::uint32_t before = 0;
                             for (std::uint32_t other = 0; other < count; ++other) {
                               before += found[other].element < found[one].element ? 1 : 0;
                             }
                             if (before != i) continue;
                             *word = found[one].element | std::uint32_t{found[one].bits} << 16;
                           }
                         });
}

template <typename Block>
NKV_KERNEL void write_key_scales(PageWriter<Block>& page) {
  if ((page.shape.flags & NKV_PAGE_FLAG_KEY_SCALES) == 0) return;
  page.template write<1>(NKV_PAGE_ARRAY_KEY_SCALES, [&](std::uint32_t token, std::uint32_t* word) {
    *word = *reinterpret_cast<const std::uint32_t*>(page.key_scales.at(token));
  });
}

}  // namespace nearkv::cuda
