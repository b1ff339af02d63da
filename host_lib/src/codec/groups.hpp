// Groups of elements that share their parameters in the lossy codecs: a channel of K, a token of V.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/ranges.hpp"
#include "nearkv/codec.hpp"

namespace nearkv::codec {

[[nodiscard]] constexpr std::size_t group_count(const BlockShape& shape) {
  return shape.tensor == Tensor::kKeys ? shape.dim : kBlockTokens;
}

/// `ranges` has group_count(shape) elements.
inline void group_ranges(const BlockShape& shape, std::span<const std::uint16_t> words,
                         std::span<Range> ranges) {
  shape.tensor == Tensor::kKeys ? channel_ranges(words, ranges) : token_ranges(words, ranges);
}

/// One parameter of every group, as a row of channels for each token.
template <typename T>
class GroupParameter {
 public:
  explicit GroupParameter(const BlockShape& shape)
      : per_channel_(shape.tensor == Tensor::kKeys), dim_(shape.dim) {}

  T& operator[](std::size_t group) { return groups_[group]; }

  /// Valid until the next call.
  std::span<const T> row(std::size_t token) {
    if (per_channel_) return std::span(groups_).first(dim_);
    const std::span<T> repeated = std::span(row_).first(dim_);
    std::fill(repeated.begin(), repeated.end(), groups_[token]);
    return repeated;
  }

 private:
  bool per_channel_;
  std::size_t dim_;
  std::array<T, kMaxBlockDim> groups_;
  std::array<T, kMaxBlockDim> row_;
};

}  // namespace nearkv::codec
