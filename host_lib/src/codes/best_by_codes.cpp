#include "codes/best_by_codes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include "codes/page_kernels.hpp"

namespace nearkv {
namespace {

constexpr std::int64_t kBins = 4096;
constexpr int kBinBits = 4;

/// A page with visible tokens, in a row.
struct PageBest {
  std::size_t page;
  std::uint64_t visible;
  std::int64_t octaves = 0;  ///< The logit of R = 0,
  std::int64_t largest = 0;  ///< and the largest one.
};

std::int64_t bin_of(std::int64_t below) { return std::min(below >> kBinBits, kBins - 1); }

/// The least score in bins up to `bin` of a page whose R of 0 lies so far below the largest logit.
std::int64_t least_within(std::int64_t below, std::int64_t bin) {
  return below - (bin << kBinBits) - ((1 << kBinBits) - 1);
}

/// Tokens in bins up to `bin` of such a page that has any there.
std::uint64_t tokens_within(const std::int16_t* above, std::int64_t below, std::int64_t bin) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int16_t>::min();
  if (bin == kBins - 1) return ~std::uint64_t{0};
  const std::int64_t least = std::max(least_within(below, bin), kLeast);
  return page_kernels().at_least(above, static_cast<std::int16_t>(least));
}

/// Counts a page's tokens by bin, in bins up to `bin`.
void count_tokens(const std::int16_t* above, std::uint64_t tokens, std::int64_t below,
                  std::int64_t bin, std::span<std::uint32_t> counts) {
  std::array<std::uint16_t, NKV_PAGE_TOKENS + 32> bins;
  // Scores that the last bin begins with may be any.
  const std::int64_t least = std::max<std::int64_t>(least_within(below, std::min(bin, kBins - 2)),
                                                    std::numeric_limits<std::int16_t>::min());
  std::size_t count = 0;
  if (least <= std::numeric_limits<std::int16_t>::max()) {
    count = page_kernels().bins(above, tokens, static_cast<std::int16_t>(least),
                                static_cast<std::uint16_t>(below), bins.data());
  }
  for (const std::uint16_t own : std::span(bins).first(count)) ++counts[own];
  if (bin == kBins - 1) {
    counts[kBins - 1] +=
        static_cast<std::uint32_t>(std::popcount(tokens)) - static_cast<std::uint32_t>(count);
  }
}

/// Adds a row's best tokens. Pages change their order.
void add_best(const CodeState& state, std::size_t row, std::uint64_t count,
              std::span<PageBest> pages, std::vector<std::uint64_t>* tokens) {
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (PageBest& own : pages) {
    own.octaves = std::int64_t{state.row_page(own.page, row).octave} * (1 << kCodeLogitBits);
    own.largest = own.octaves + page_kernels().largest(state.above(own.page, row), own.visible);
    largest = std::max(largest, own.largest);
  }
  // A bin in which `count` pages have their best token, or below it: no token further on counts.
  std::array<std::uint32_t, kBins> counts{};
  for (const PageBest& own : pages) {
    ++counts[static_cast<std::size_t>(bin_of(largest - own.largest))];
  }
  const auto bin_that_holds = [&] {
    std::uint64_t reached = 0;
    std::int64_t last = 0;
    for (; last < kBins - 1; ++last) {
      reached += counts[static_cast<std::size_t>(last)];
      if (reached >= count) break;
    }
    return last;
  };
  const auto those_within = [&](std::int64_t bin) {
    const auto end = std::partition(pages.begin(), pages.end(), [&](const PageBest& own) {
      return bin_of(largest - own.largest) <= bin;
    });
    return pages.first(static_cast<std::size_t>(end - pages.begin()));
  };
  const std::int64_t enough = bin_that_holds();
  // What lies in these bins: few tokens of few pages.
  std::fill_n(counts.begin(), enough + 1, 0);
  for (const PageBest& own : those_within(enough)) {
    count_tokens(state.above(own.page, row), own.visible, largest - own.octaves, enough, counts);
  }
  const std::int64_t last = std::min(bin_that_holds(), enough);
  for (const PageBest& own : those_within(last)) {
    (*tokens)[own.page] |=
        own.visible & tokens_within(state.above(own.page, row), largest - own.octaves, last);
  }
}

}  // namespace

void best_by_codes(const CodeState& state, std::uint64_t count,
                   std::vector<std::uint64_t>* tokens) {
  std::uint64_t visible = 0;
  std::vector<PageBest> pages;
  pages.reserve(state.pages().size());
  tokens->clear();
  for (const CodedPage& page : state.pages()) {
    if (page.visible != 0) pages.push_back({.page = tokens->size(), .visible = page.visible});
    tokens->push_back(page.visible);
    visible += static_cast<std::uint64_t>(std::popcount(page.visible));
  }
  if (visible <= count) return;
  std::ranges::fill(*tokens, 0);
  if (count == 0) return;
  for (std::size_t row = 0; row < state.rows(); ++row) add_best(state, row, count, pages, tokens);
}

}  // namespace nearkv
