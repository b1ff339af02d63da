// A page with codes as attention and search by codes see it: where its arrays lie, and what its
// head says of them (section 11 of ARITHMETIC.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attend/traffic.hpp"
#include "codes/code_form.hpp"
#include "nkv_abi.h"
#include "page/page_view.hpp"

namespace nearkv {

/// Codes of one tensor. Valid while the page is.
struct CodedTensor {
  const std::uint8_t* factors;  ///< Four bits a token.
  const std::int8_t* mean;
  std::array<const std::uint8_t*, 4> planes;  ///< [PAGE_TOKENS][dim / 8] each.
  int mean_power;
  int top;  ///< Sixteenths of factor 15.

  [[nodiscard]] unsigned factor(std::size_t token) const {
    return factors[token / 2] >> (token % 2 * 4) & 15U;
  }

  /// Whether a row has a residual.
  [[nodiscard]] bool has_factors() const {
    std::array<std::uint64_t, NKV_PAGE_TOKENS / 16> words;
    std::memcpy(words.data(), factors, sizeof(words));
    std::uint64_t any = 0;
    for (const std::uint64_t word : words) any |= word;
    return any != 0;
  }
};

/// Codes of an open page's keys, and of its values.
[[nodiscard]] inline CodedTensor coded_keys(const PageView& view) {
  const nkv_page_header& header = view.header();
  const std::size_t plane_bytes = std::size_t{NKV_PAGE_TOKENS / 8} * header.head_dim;
  const auto* const rest = view.data<std::uint8_t>(NKV_PAGE_ARRAY_K_CODES);
  return {view.data<std::uint8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY),
          view.data<std::int8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS,
          {view.data<std::uint8_t>(NKV_PAGE_ARRAY_K_SIGNS), rest, rest + plane_bytes,
           rest + 2 * plane_bytes},
          header.k_mean_power,
          header.k_top};
}
[[nodiscard]] inline CodedTensor coded_values(const PageView& view) {
  const nkv_page_header& header = view.header();
  const std::size_t plane_bytes = std::size_t{NKV_PAGE_TOKENS / 8} * header.value_dim;
  const auto* const planes = view.data<std::uint8_t>(NKV_PAGE_ARRAY_V_CODES);
  return {view.data<std::uint8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS / 2,
          view.data<std::int8_t>(NKV_PAGE_ARRAY_CODE_SUMMARY) + NKV_PAGE_TOKENS + header.head_dim,
          {planes, planes + plane_bytes, planes + 2 * plane_bytes, nullptr},
          header.v_mean_power,
          header.v_top};
}

struct CodedPage {
  std::uint32_t index = 0;  ///< In the page list.
  std::uint8_t sign_set = 0;
  bool is_coded = false;       ///< Else plain: all of it is read exactly.
  std::uint64_t in_sight = 0;  ///< Visible by position,
  std::uint64_t visible = 0;   ///< and the key is finite.
  CodedTensor keys{};
  CodedTensor values{};
  std::uint32_t crc_hot = 0;  ///< Of the header that was scanned.
  std::uint16_t key_row_bytes = 0;
  std::uint16_t value_row_bytes = 0;  ///< 0 with v_form NONE.
  std::uint8_t key_exponent_bursts = 0;
  std::uint8_t value_exponent_bursts = 0;

  /// Visible tokens that have codes, and those that have none.
  [[nodiscard]] std::uint64_t coded() const { return is_coded ? visible : 0; }
  [[nodiscard]] std::uint64_t plain() const { return is_coded ? 0 : visible; }

  /// Takes what the view of an open page says, with its codes if they are to be used.
  void take(const PageView& view, bool with_codes) {
    const nkv_page_header& header = view.header();
    is_coded = with_codes;
    sign_set = with_codes ? header.sign_set : std::uint8_t{0};
    crc_hot = header.crc_hot;
    key_row_bytes = row_bytes(view, NKV_PAGE_ARRAY_K_ROWS);
    key_exponent_bursts = burst_count(view, NKV_PAGE_ARRAY_K_EXPONENTS);
    value_row_bytes = row_bytes(view, NKV_PAGE_ARRAY_V_ROWS);
    value_exponent_bursts = burst_count(view, NKV_PAGE_ARRAY_V_EXPONENTS);
    keys = with_codes ? coded_keys(view) : CodedTensor{};
    values = with_codes ? coded_values(view) : CodedTensor{};
  }

 private:
  static std::uint16_t row_bytes(const PageView& view, nkv_page_array array) {
    return static_cast<std::uint16_t>(view.bytes(array).size() / NKV_PAGE_TOKENS);
  }
  static std::uint8_t burst_count(const PageView& view, nkv_page_array array) {
    return static_cast<std::uint8_t>(bursts(view.bytes(array).size()));
  }
};

/// Tokens whose plane bits fill whole bursts (5.4).
[[nodiscard]] constexpr std::size_t granule_tokens(std::size_t dim) {
  const std::size_t row_bytes = dim / 8;
  const std::size_t common = row_bytes & (~row_bytes + 1);  // Bursts are a power of two.
  return NKV_BURST_BYTES / (common < NKV_BURST_BYTES ? common : NKV_BURST_BYTES);
}

/// Bursts of a plane of one granule.
[[nodiscard]] constexpr std::size_t granule_bursts(std::size_t dim) {
  return granule_tokens(dim) * (dim / 8) / NKV_BURST_BYTES;
}

}  // namespace nearkv
