// Keys at plane precision out of pages: the middles of their cells, as READ gives them.
#pragma once

#include "nearkv_cuda.h"
#include "pages.hpp"

namespace nearkv::cuda {

/// A block takes a page, and a thread eight channels of a token at a time.
class PagePlanes {
 public:
  PagePlanes(const Pages& pages, const nearkv_cuda_page_planes_args& args)
      : pages_(pages), args_(args) {}

  [[nodiscard]] Grid grid() const { return {pages_.count, 0}; }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const std::uint32_t dim = pages_.head_dim;
    const std::uint32_t chunks = dim / kChunk;
    OpenPage page;
    const std::uint8_t status = open_page(pages_, block.index(), &page);
    if (status != NKV_STATUS_OK && block.thread() == 0) {
      report(block, args_.fault, block.index(), status);
    }
    for (unsigned i = block.thread(); i < NKV_PAGE_TOKENS * chunks; i += kThreads) {
      std::uint32_t patterns[kChunk] = {};
      const std::uint32_t channel = i % chunks * kChunk;
      if (status == NKV_STATUS_OK) middles(page, i / chunks, channel, patterns);
      const std::uint64_t token = std::uint64_t{block.index()} * NKV_PAGE_TOKENS + i / chunks;
      store_chunk(patterns, static_cast<std::byte*>(args_.out) + (token * dim + channel) * 2);
    }
  }

 private:
  NKV_KERNEL void middles(const OpenPage& page, std::uint32_t token, std::uint32_t channel,
                          std::uint32_t* patterns) const {
    const auto* const digest = reinterpret_cast<const Words4*>(page.start + page.places->digest +
                                                               channel * sizeof(std::uint16_t));
    const Words4 entries = *digest;
    std::uint32_t bits[NKV_KEY_PLANES] = {};
    const std::uint32_t at = (token * pages_.head_dim + channel) / 8;
    NKV_UNROLL
    for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
      if (plane >= args_.planes) break;
      bits[plane] = static_cast<std::uint32_t>(page.start[page.places->planes[plane] + at]);
    }
    for (unsigned i = 0; i < kChunk; ++i) {
      const std::uint32_t entry = entries.word[i / 2] >> (i % 2 * 16) & 0xFFFFU;
      const ChannelStep step = unpack_step(entry, page.header->k_step_exponent);
      std::int32_t code = 128 >> args_.planes;  // Half of what the unread bits could add.
      NKV_UNROLL
      for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
        if (plane >= args_.planes) break;
        code += static_cast<std::int32_t>((bits[plane] >> i & 1U) << (7 - plane));
      }
      // Fewer than 24 bits: exact but for the exponent.
      const auto steps = static_cast<float>((step.base + code) * step.mantissa);
      patterns[i] = middle(steps, step.exponent);
    }
  }

  /// steps * 2^exponent in bf16; the greatest finite number beyond it, and +0 below the least
  /// normal one.
  [[nodiscard]] NKV_KERNEL static std::uint32_t middle(float steps, std::int32_t exponent) {
    const float value = ldexpf(steps, exponent);
    const float magnitude = fabsf(value);
    if (magnitude < bits_as<float>(0x00800000U)) return 0;
    if (magnitude > bits_as<float>(0x7F7FFFFFU)) return steps < 0 ? 0xFF7FU : 0x7F7FU;
    return to_bf16(value);
  }

  Pages pages_;
  nearkv_cuda_page_planes_args args_;
};

}  // namespace nearkv::cuda
