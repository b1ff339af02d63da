// What a command by codes knows of a list: scores of all tokens in all rows, and what has been read
// of each page (sections 12 and 13 of ARITHMETIC.md).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codes/aligned_numbers.hpp"
#include "codes/code_query.hpp"
#include "codes/coded_page.hpp"
#include "codes/page_kernels.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// Calls use(token) for the tokens of a mask, ascending.
template <typename Use>
void for_each_bit(std::uint64_t tokens, const Use& use) {
  for (; tokens != 0; tokens &= tokens - 1) {
    use(static_cast<std::size_t>(std::countr_zero(tokens)));
  }
}

inline constexpr std::size_t kPagesAtATime = 16;  ///< That a worker takes of a list.

/// A page in a row.
struct RowPage {
  std::int32_t octave = 0;       ///< I
  std::int32_t top = 0;          ///< n_p
  std::int32_t rest = 0;         ///< w of Z of the tokens that do not stand alone; 0 of none,
  std::int32_t rest_octave = 0;  ///< and the integer part of its L.
  std::int16_t fraction = 0;     ///< f
  std::int16_t mean = 0;         ///< mu
  std::int16_t log_spread = 0;   ///< tau

  /// After I: n_p and Z.
  void take(const PageWeight& weight) {
    constexpr int kRestBits = 18;
    const auto bits = static_cast<int>(std::bit_width(weight.rest));
    top = weight.top;
    rest = static_cast<std::int32_t>((std::uint64_t{weight.rest} << kRestBits) >> bits);
    rest_octave = octave + top + bits - 16;
  }
};

/// Tokens of a page's keys by how many planes of them are read.
using PlaneTokens = std::array<std::uint64_t, NKV_KEY_CODE_PLANES + 1>;
using ValueTokens = std::array<std::uint64_t, NKV_VALUE_CODE_PLANES + 1>;  ///< The same of V.

/// What has been read of a page besides its plane 0.
struct PageReads {
  std::uint64_t key_rows = 0;
  std::uint64_t value_rows = 0;
  /// Tokens of granules of K with so many planes, where those were ever more than one,
  PlaneTokens refined{};
  /// and of granules of V.
  ValueTokens valued{};
  std::int32_t first_exact = -1;  ///< The last key row read, as a place among ExactRow.

  [[nodiscard]] std::uint64_t alone() const { return key_rows | value_rows; }
  [[nodiscard]] std::uint64_t any_valued() const { return valued[2] | valued[3]; }
};

/// A token whose key row was read; its logits L are at [place][rows].
struct ExactRow {
  std::uint32_t token;  ///< Of its page.
  std::int32_t next;    ///< Another one of the page, or -1.
};

/// Granules of a tensor.
struct Granules {
  std::size_t tokens = 0;  ///< Of one.
  std::size_t count = 0;   ///< Of a page.
  std::size_t bursts = 0;  ///< Of a plane of one.

  static Granules of(std::size_t dim) {
    const std::size_t tokens = granule_tokens(dim);
    return {tokens, NKV_PAGE_TOKENS / tokens, granule_bursts(dim)};
  }
  /// Tokens of a granule.
  [[nodiscard]] std::uint64_t mask(std::size_t number) const {
    return ((std::uint64_t{1} << tokens) - 1) << (number * tokens);
  }
  /// Calls use(number) for the granules that some tokens are all of.
  template <typename Use>
  void for_each(std::uint64_t some, const Use& use) const {
    while (some != 0) {
      const std::size_t number = static_cast<std::size_t>(std::countr_zero(some)) / tokens;
      use(number);
      some &= ~mask(number);
    }
  }
};

/// Thread safety: different pages may be worked on by different threads; exact rows are taken by
/// one.
class CodeState {
 public:
  /// `query` must outlive it.
  explicit CodeState(const CodeQuery* query) : query_(query) {}

  /// For `pages` pages and the rows of a query of which `query` is going to be made; `value_dim`
  /// may be 0.
  void reset(std::size_t pages, const Query& query, std::size_t value_dim);

  [[nodiscard]] const CodeQuery& query() const { return *query_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::span<CodedPage> pages() { return pages_; }
  [[nodiscard]] std::span<const CodedPage> pages() const { return pages_; }
  [[nodiscard]] std::span<PageReads> reads() { return reads_; }
  [[nodiscard]] std::span<const PageReads> reads() const { return reads_; }

  [[nodiscard]] RowPage& row_page(std::size_t page, std::size_t row) {
    return row_pages_[page * rows_ + row];
  }
  [[nodiscard]] const RowPage& row_page(std::size_t page, std::size_t row) const {
    return row_pages_[page * rows_ + row];
  }

  /// R and P of a page's tokens in a row.
  [[nodiscard]] std::int16_t* above(std::size_t page, std::size_t row) const {
    return above_.data() + (page * rows_ + row) * NKV_PAGE_TOKENS;
  }
  [[nodiscard]] std::int16_t* drawn(std::size_t page, std::size_t row) const {
    return drawn_.data() + (page * rows_ + row) * NKV_PAGE_TOKENS;
  }

  [[nodiscard]] const Granules& key_granules() const { return key_granules_; }
  [[nodiscard]] const Granules& value_granules() const { return value_granules_; }
  /// Planes that are read of a page's granules.
  [[nodiscard]] std::uint8_t* key_planes(std::size_t page) {
    return key_planes_.data() + page * key_granules_.count;
  }
  [[nodiscard]] const std::uint8_t* key_planes(std::size_t page) const {
    return key_planes_.data() + page * key_granules_.count;
  }
  [[nodiscard]] std::uint8_t* value_planes(std::size_t page) {
    return value_planes_.data() + page * value_granules_.count;
  }
  [[nodiscard]] const std::uint8_t* value_planes(std::size_t page) const {
    return value_planes_.data() + page * value_granules_.count;
  }

  /// The granules of some tokens have so many planes from now on.
  void set_key_planes(std::size_t page, std::uint64_t tokens, std::size_t planes) {
    set_planes(key_granules_, tokens, planes, key_planes(page), reads_[page].refined);
  }
  void set_value_planes(std::size_t page, std::uint64_t tokens, std::size_t planes) {
    set_planes(value_granules_, tokens, planes, value_planes(page), reads_[page].valued);
  }

  /// Adds a token whose key row was read; its logits are the caller's to fill in.
  std::span<std::int64_t> add_exact(std::size_t page, std::size_t token);

  /// Calls use(token, logits of all rows) for the tokens of a page whose key rows were read.
  template <typename Use>
  void for_each_exact(std::size_t page, const Use& use) const {
    for (std::int32_t at = reads_[page].first_exact; at >= 0;) {
      const auto place = static_cast<std::size_t>(at);
      use(exact_rows_[place].token, std::span(exact_).subspan(place * rows_, rows_));
      at = exact_rows_[place].next;
    }
  }

  /// nu (12.4) of a row's tokens of factor 0, were it one like the others: each factor more is 4
  /// more. Very small where all are at their least.
  [[nodiscard]] int lowest_variance(std::size_t page, std::size_t row) const {
    if (query_->is_zero(row) || !has_key_factors_[page]) return kFlatVariance;
    return query_->variance(row) + 2 * (pages_[page].keys.top - kKeyCodes.factor_step * kTopFactor);
  }
  void set_key_factors(std::size_t page, bool any) { has_key_factors_[page] = any ? 1 : 0; }

  static constexpr int kFlatVariance = -(1 << 20);

 private:
  static void set_planes(const Granules& granules, std::uint64_t tokens, std::size_t planes,
                         std::uint8_t* own, std::span<std::uint64_t> sets) {
    for (std::uint64_t& set : sets) set &= ~tokens;
    sets[planes] |= tokens;
    granules.for_each(tokens,
                      [&](std::size_t number) { own[number] = static_cast<std::uint8_t>(planes); });
  }

  const CodeQuery* query_;
  std::size_t rows_ = 0;
  std::vector<CodedPage> pages_;
  std::vector<PageReads> reads_;
  std::vector<RowPage> row_pages_;
  std::vector<std::uint8_t> has_key_factors_;
  AlignedNumbers<std::int16_t> above_;
  AlignedNumbers<std::int16_t> drawn_;
  Granules key_granules_;
  Granules value_granules_;
  std::vector<std::uint8_t> key_planes_;
  std::vector<std::uint8_t> value_planes_;
  std::vector<ExactRow> exact_rows_;
  std::vector<std::int64_t> exact_;
};

}  // namespace nearkv
