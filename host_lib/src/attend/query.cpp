#include "attend/query.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "nkv_abi.h"
#include "page/elements.hpp"
#include "page/row_source.hpp"

namespace nearkv {
namespace {

/// Sign and 24-bit significand, shifted right by 1 + (largest exponent - own).
std::int32_t align(float value, int largest) {
  const int exponent = biased_exponent(value);
  if (exponent == 0) return 0;
  const int shift = 1 + largest - exponent;
  if (shift > 24) return 0;
  const std::uint32_t significand = (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFU) | 0x800000U;
  const auto magnitude = static_cast<std::int32_t>(significand >> shift);
  return std::signbit(value) ? -magnitude : magnitude;
}

}  // namespace

Outcome Query::load(const Window& window, std::uint64_t address, std::size_t rows, std::size_t dim,
                    std::uint8_t dtype) {
  const std::size_t row_bytes = dim * nkv_element_bytes(dtype);
  const std::span<std::byte> bytes = window.at(address, rows * row_bytes);
  if (bytes.empty()) return {Status::kAddressFault, address};
  return load(bytes, rows, dim, dtype);
}

Outcome Query::load(std::span<const std::byte> bytes, std::size_t rows, std::size_t dim,
                    std::uint8_t dtype) {
  dim_ = dim;
  values_.resize(rows * dim);
  aligned_.resize(rows * dim);
  exponents_.assign(rows, 0);
  RowSource source;
  source.dtype = dtype;
  source.dim = dim;
  source.row_bytes = dim * nkv_element_bytes(dtype);
  source.rows = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::size_t row = 0; row < rows; ++row) {
    float* const values = values_.data() + row * dim;
    if (!source.decode(row, values)) return {Status::kBadQuery, row};
    for (std::size_t channel = 0; channel < dim; ++channel) {
      exponents_[row] = std::max(exponents_[row], biased_exponent(values[channel]));
    }
    for (std::size_t channel = 0; channel < dim; ++channel) {
      aligned_[row * dim + channel] = align(values[channel], exponents_[row]);
    }
  }
  return {};
}

double score_unit(int query_exponent, int key_exponent) {
  return std::ldexp(1.0, query_exponent + key_exponent - 301);
}

}  // namespace nearkv
