// Scattered rows, packed: from the GPU's memory, or straight out of the host's.
#pragma once

#include "nearkv_cuda.h"
#include "pages.hpp"

namespace nearkv::cuda {

/// A thread moves 16 bytes at a time, and has several such loads under way: what the host's memory
/// takes to answer is long, and what it delivers is had by asking often.
class Gather {
 public:
  explicit Gather(const nearkv_cuda_gather_args& args) : args_(args) {}

  [[nodiscard]] Grid grid() const {
    const std::uint64_t words = args_.rows * (args_.row_bytes / sizeof(Words4));
    constexpr std::uint64_t kBlockWords = std::uint64_t{kThreads} * kLoads;
    return {(words + kBlockWords - 1) / kBlockWords, 0};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const auto row_words = static_cast<std::uint32_t>(args_.row_bytes / sizeof(Words4));
    const std::uint64_t words = args_.rows * row_words;
    const std::uint64_t first = std::uint64_t{block.index()} * kThreads * kLoads + block.thread();
    Words4 loaded[kLoads];
    NKV_UNROLL
    for (unsigned i = 0; i < kLoads; ++i) {
      const std::uint64_t at = first + std::uint64_t{i} * kThreads;
      loaded[i] = Words4{};
      if (at >= words) continue;
      const auto id = static_cast<std::uint64_t>(args_.ids[at / row_words]);
      if (id < args_.source_rows) {
        loaded[i] = *reinterpret_cast<const Words4*>(static_cast<const std::byte*>(args_.source) +
                                                     id * args_.source_stride_bytes +
                                                     at % row_words * sizeof(Words4));
      } else {
        report(block, args_.fault, at / row_words, NKV_STATUS_BAD_FIELD);
      }
    }
    NKV_UNROLL
    for (unsigned i = 0; i < kLoads; ++i) {
      const std::uint64_t at = first + std::uint64_t{i} * kThreads;
      if (at >= words) continue;
      *reinterpret_cast<Words4*>(static_cast<std::byte*>(args_.out) +
                                 at / row_words * args_.out_stride_bytes +
                                 at % row_words * sizeof(Words4)) = loaded[i];
    }
  }

 private:
  static constexpr unsigned kLoads = 4;

  nearkv_cuda_gather_args args_;
};

}  // namespace nearkv::cuda
