// Exact rows out of pages: DELTA4's exponent deltas undone, exceptions put back, to the last bit.
#pragma once

#include "nearkv_cuda.h"
#include "pages.hpp"

namespace nearkv::cuda {

/// A thread restores eight channels of a row at a time, several rows' worth of them.
class PageRows {
 public:
  PageRows(const Pages& pages, const nearkv_cuda_page_rows_args& args)
      : pages_(pages), args_(args) {}

  [[nodiscard]] Grid grid() const {
    const std::uint64_t chunks = args_.rows * (dim() / kChunk);
    constexpr std::uint64_t kBlockChunks = std::uint64_t{kThreads} * kChunksPerThread;
    return {(chunks + kBlockChunks - 1) / kBlockChunks, 0};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const std::uint32_t row_chunks = dim() / kChunk;
    const std::uint64_t chunks = args_.rows * row_chunks;
    std::uint64_t at = std::uint64_t{block.index()} * kThreads * kChunksPerThread + block.thread();
    for (unsigned i = 0; i < kChunksPerThread && at < chunks; ++i, at += kThreads) {
      restore(block, at / row_chunks, static_cast<std::uint32_t>(at % row_chunks) * kChunk);
    }
  }

 private:
  static constexpr unsigned kChunksPerThread = 4;

  [[nodiscard]] NKV_BOTH bool is_value() const { return args_.tensor == NKV_TENSOR_VALUES; }
  [[nodiscard]] NKV_BOTH std::uint32_t dim() const {
    return is_value() ? pages_.value_dim : pages_.head_dim;
  }

  template <typename Block>
  NKV_KERNEL void restore(Block& block, std::uint64_t row, std::uint32_t channel) const {
    const bool is_byte = pages_.dtype != NKV_DTYPE_BF16 && pages_.dtype != NKV_DTYPE_FP16;
    const std::uint64_t token = args_.ids != nullptr ? args_.ids[row] : row;
    std::byte* const out = static_cast<std::byte*>(args_.out) + row * args_.out_row_bytes +
                           std::size_t{channel} * (is_byte ? 1 : 2);
    OpenPage page;
    const std::uint64_t index = token / NKV_PAGE_TOKENS;
    const std::uint8_t status = index < pages_.count
                                    ? open_page(pages_, static_cast<std::uint32_t>(index), &page)
                                    : std::uint8_t{NKV_STATUS_BAD_FIELD};
    if (status != NKV_STATUS_OK) {
      report(block, args_.fault, row, status);
      clear(out, is_byte);
      return;
    }
    const auto within = static_cast<std::uint32_t>(token % NKV_PAGE_TOKENS);
    // Values that are not stored are the leading channels of the keys.
    const bool from_values = is_value() && page.header->v_form != NKV_ROW_FORM_NONE;
    const RowPlace& place = from_values ? page.places->values : page.places->keys;
    const std::uint32_t stored = from_values ? pages_.value_dim : pages_.head_dim;
    const std::uint8_t form = from_values ? page.header->v_form : page.header->k_form;
    if (form == NKV_ROW_FORM_DELTA4) {
      const unsigned exceptions =
          from_values ? page.header->v_exceptions : page.header->k_exceptions;
      undo_deltas(page.start, place, stored, within, channel, exceptions, out);
    } else {
      copy(page.start + place.rows + std::size_t{within * stored + channel} * (is_byte ? 1 : 2),
           out, is_byte);
    }
  }

  NKV_KERNEL static void clear(std::byte* out, bool is_byte) {
    if (is_byte) {
      *reinterpret_cast<std::uint64_t*>(out) = 0;
    } else {
      *reinterpret_cast<Words4*>(out) = Words4{};
    }
  }

  NKV_KERNEL static void copy(const std::byte* source, std::byte* out, bool is_byte) {
    if (is_byte) {
      *reinterpret_cast<std::uint64_t*>(out) = *reinterpret_cast<const std::uint64_t*>(source);
    } else {
      *reinterpret_cast<Words4*>(out) = *reinterpret_cast<const Words4*>(source);
    }
  }

  /// Eight elements from eight bytes of signs and mantissas, four of nibbles and eight exponents.
  NKV_KERNEL static void undo_deltas(const std::byte* page, const RowPlace& place,
                                     std::uint32_t dim, std::uint32_t token, std::uint32_t channel,
                                     unsigned exceptions, std::byte* out) {
    const std::byte* const row = page + place.rows + std::size_t{token} * (dim + dim / 2);
    const auto fractions = *reinterpret_cast<const std::uint64_t*>(row + channel);
    const auto nibbles = *reinterpret_cast<const std::uint32_t*>(row + dim + channel / 2);
    const auto exponents =
        *reinterpret_cast<const std::uint64_t*>(page + place.exponents + channel);
    std::uint32_t patterns[kChunk];
    for (unsigned i = 0; i < kChunk; ++i) {
      const auto fraction = static_cast<std::uint32_t>(fractions >> (8 * i)) & 0xFFU;
      const std::uint32_t nibble = (nibbles >> (4 * i)) & 0xFU;
      const auto least = static_cast<std::uint32_t>(exponents >> (8 * i)) & 0xFFU;
      const std::uint32_t exponent = nibble == 0 ? 0 : (least + nibble) & 0xFFU;
      patterns[i] = (fraction >> 7 << 15) | (exponent << 7) | (fraction & 0x7FU);
    }
    const auto* const exception =
        reinterpret_cast<const nkv_row_exception*>(page + place.exceptions);
    const std::uint32_t first = token * dim + channel;
    for (unsigned i = 0; i < exceptions; ++i) {
      const std::uint32_t ahead = exception[i].element - first;
      NKV_UNROLL
      for (unsigned c = 0; c < kChunk; ++c) {
        if (ahead == c) patterns[c] = exception[i].bits;
      }
    }
    store_chunk(patterns, out);
  }

  Pages pages_;
  nearkv_cuda_page_rows_args args_;
};

}  // namespace nearkv::cuda
