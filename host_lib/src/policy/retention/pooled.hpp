// Neighbours of an important token are important too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace nearkv {

/// Writes, for each number, the largest of the `width` ones around it; `to` is another memory.
inline void pool_largest(std::span<const float> from, std::size_t width, std::span<float> to) {
  const std::size_t reach = width / 2;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t first = i - std::min(i, reach);
    const std::size_t end = std::min(from.size(), i + reach + 1);
    to[i] = *std::max_element(from.begin() + static_cast<std::ptrdiff_t>(first),
                              from.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

}  // namespace nearkv
