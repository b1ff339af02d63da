// The transforms of codes (ARITHMETIC.md, section 11.1) in plain loops, for rows of any width.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codes/code_form.hpp"

namespace nearkv {

/// Fraction bits that transpose() adds.
inline constexpr int kTransposeBits = 15;

/// The Hadamard transform of one block, whose size is a power of two. Exact while T holds `size`
/// times its largest magnitude.
template <typename T>
void hadamard_block(T* values, std::size_t size) {
  for (std::size_t half = 1; half < size; half *= 2) {
    for (std::size_t group = 0; group < size; group += 2 * half) {
      for (std::size_t i = group; i < group + half; ++i) {
        const T a = values[i];
        const T b = values[i + half];
        values[i] = a + b;
        values[i + half] = a - b;
      }
    }
  }
}

/// Turns the signs that a set has as minus.
template <typename T>
void apply_signs(T* values, std::size_t dim, unsigned set) {
  const auto minus = minus_signs(set);
  for (std::size_t c = 0; c < dim; ++c) values[c] = minus[c] != 0 ? -values[c] : values[c];
}

/// 2^15 times the transposed transform of a row, exact while T holds it.
template <typename T>
void transpose(T* values, std::size_t dim, unsigned set) {
  for (std::size_t at = 0; at < dim;) {
    const CodeBlock block = code_block(dim, at);
    const T scale = block.scale == 0 ? T{1} << kTransposeBits : T{block.scale};
    for (std::size_t c = at; c < at + block.size; ++c) values[c] *= scale;
    hadamard_block(values + at, block.size);
    at += block.size;
  }
  apply_signs(values, dim, set);
}

}  // namespace nearkv
