// Page digests that the GPU keeps: taken out of pages, and the largest score that each allows.
#pragma once

#include "nearkv_cuda.h"
#include "pages.hpp"

namespace nearkv::cuda {

/// A block takes a page.
class CollectDigests {
 public:
  CollectDigests(const Pages& pages, const nearkv_cuda_digests_args& args)
      : pages_(pages), args_(args) {}

  [[nodiscard]] Grid grid() const { return {pages_.count, 0}; }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    OpenPage page;
    const std::uint8_t status = open_page(pages_, block.index(), &page);
    const bool is_sound = status == NKV_STATUS_OK;
    if (block.thread() == 0) {
      if (!is_sound) report(block, args_.fault, block.index(), status);
      args_.exponents[block.index()] = is_sound ? page.header->k_step_exponent : std::int16_t{0};
    }
    auto* const out =
        reinterpret_cast<Words4*>(args_.digests + std::uint64_t{block.index()} * pages_.head_dim);
    const unsigned words = pages_.head_dim / kChunk;
    const auto* const source =
        is_sound ? reinterpret_cast<const Words4*>(page.start + page.places->digest) : nullptr;
    for (unsigned i = block.thread(); i < words; i += kThreads) {
      out[i] = is_sound ? source[i] : Words4{};
    }
  }

 private:
  Pages pages_;
  nearkv_cuda_digests_args args_;
};

/// A block takes kRows rows and kPages pages, and four neighbouring threads the chunks of a page's
/// channels in turn.
template <unsigned kRows>
class Bounds {
 public:
  explicit Bounds(const nearkv_cuda_bounds_args& args) : args_(args) {}

  [[nodiscard]] Grid grid() const {
    const std::uint64_t row_blocks = (args_.rows + kRows - 1) / kRows;
    const std::uint64_t page_blocks = (args_.pages + kPages - 1) / kPages;
    return {row_blocks * page_blocks,
            std::size_t{kRows} * (args_.head_dim * sizeof(float) + kThreads * sizeof(Sum))};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const std::uint32_t row_blocks = (args_.rows + kRows - 1) / kRows;
    const std::uint32_t row = block.index() % row_blocks * kRows;
    const std::uint32_t page = block.index() / row_blocks * kPages + block.thread() / kSlices;
    auto* const query = reinterpret_cast<float*>(block.shared());
    auto* const sums = reinterpret_cast<Sum*>(query + std::size_t{kRows} * args_.head_dim);
    load_query(block, row, query);
    block.sync();
    Sum own[kRows] = {};
    if (page < args_.pages) add_slice(page, block.thread() % kSlices, query, own);
    for (unsigned r = 0; r < kRows; ++r) sums[r * kThreads + block.thread()] = own[r];
    block.sync();
    for (unsigned i = block.thread(); i < kRows * kPages; i += kThreads) {
      const std::uint32_t out_page = block.index() / row_blocks * kPages + i % kPages;
      if (row + i / kPages >= args_.rows || out_page >= args_.pages) continue;
      const Sum* const slices = sums + i / kPages * kThreads + i % kPages * kSlices;
      Sum all{};
      for (unsigned s = 0; s < kSlices; ++s) {
        all.score += slices[s].score;
        all.magnitude += slices[s].magnitude;
      }
      args_.bounds[std::uint64_t{row + i / kPages} * args_.pages + out_page] = raised(all);
    }
  }

 private:
  static constexpr unsigned kSlices = 4;
  static constexpr unsigned kPages = kThreads / kSlices;

  static constexpr float kLeastNormal = 1.17549435e-38F;

  struct Sum {
    float score;
    float magnitude;  ///< Of its terms.
  };

  template <typename Block>
  NKV_KERNEL void load_query(Block& block, std::uint32_t row, float* query) const {
    const unsigned chunks = args_.head_dim / kChunk;
    const unsigned bytes = args_.query_dtype == NKV_DTYPE_FP32 ? 4 : 2;
    for (unsigned i = block.thread(); i < kRows * chunks; i += kThreads) {
      const std::uint32_t index = row + i / chunks < args_.rows ? row + i / chunks : row;
      const std::uint64_t element =
          std::uint64_t{index} * args_.head_dim + i % chunks * std::uint64_t{kChunk};
      load_chunk(static_cast<const std::byte*>(args_.query) + element * bytes, args_.query_dtype,
                 query + std::size_t{i} * kChunk);
    }
  }

  NKV_KERNEL void add_slice(std::uint32_t page, unsigned slice, const float* query,
                            Sum (&sums)[kRows]) const {
    const std::int32_t exponent = args_.exponents[page];
    const auto* const digest =
        reinterpret_cast<const Words4*>(args_.digests + std::uint64_t{page} * args_.head_dim);
    for (unsigned chunk = slice; chunk < args_.head_dim / kChunk; chunk += kSlices) {
      const Words4 entries = digest[chunk];
      for (unsigned i = 0; i < kChunk; ++i) {
        const ChannelStep step =
            unpack_step(entries.word[i / 2] >> (i % 2 * 16) & 0xFFFFU, exponent);
        const float low = edge(step.base * step.mantissa, step.exponent);
        const float high = edge((step.base + 256) * step.mantissa, step.exponent);
        for (unsigned r = 0; r < kRows; ++r) {
          const float q = query[r * args_.head_dim + chunk * kChunk + i];
          const float term = q * (q > 0 ? high : low);
          sums[r].score += term;
          // An edge below the least normal number may be off by 2^-150.
          sums[r].magnitude += fabsf(term) + fabsf(q) * kLeastNormal;
        }
      }
    }
  }

  /// No key is beyond the greatest finite number.
  [[nodiscard]] NKV_KERNEL static float edge(std::int32_t steps, std::int32_t exponent) {
    constexpr float kGreatest = 3.4028234663852886e38F;
    return fminf(fmaxf(ldexpf(static_cast<float>(steps), exponent), -kGreatest), kGreatest);
  }

  /// What rounding may have taken off is put back on. Products below the least normal number lose
  /// up to 2^-149 each.
  [[nodiscard]] NKV_KERNEL float raised(const Sum& sum) const {
    const float share = static_cast<float>(args_.head_dim + 8) * 1.1920929e-7F;  // 2^-23.
    const float bound = sum.score + (sum.magnitude * share + 1e-41F);
    return bound == bound ? bound : -minus_infinity();
  }

  nearkv_cuda_bounds_args args_;
};

}  // namespace nearkv::cuda
