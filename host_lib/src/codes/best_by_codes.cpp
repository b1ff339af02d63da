#include "codes/best_by_codes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "codes/page_kernels.hpp"

namespace nearkv {
namespace {

constexpr std::int64_t kBins = 4096;
constexpr int kBinBits = 4;

/// Of a page in a row.
struct PageBest {
  std::int64_t octaves;  ///< The logit of R = 0,
  std::int64_t largest;  ///< and the largest one.
};

std::int64_t bin_of(std::int64_t below) { return std::min(below >> kBinBits, kBins - 1); }

struct Candidate {
  std::uint32_t page;
  std::uint16_t token;
  std::uint16_t bin;
};

/// Tokens in bins up to `bin` of a page whose R of 0 lies so far below the largest logit.
std::uint64_t tokens_within(const std::int16_t* above, std::int64_t below, std::int64_t bin) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int16_t>::min();
  if (bin == kBins - 1) return ~std::uint64_t{0};
  const std::int64_t least = below - (bin << kBinBits) - ((1 << kBinBits) - 1);
  return page_kernels().at_least(above, static_cast<std::int16_t>(std::max(least, kLeast)));
}

void add_best(const CodeState& state, std::size_t row, std::uint64_t count,
              std::vector<std::uint64_t>* tokens) {
  const std::size_t pages = state.pages().size();
  std::vector<PageBest> bests(pages);
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (std::size_t page = 0; page < pages; ++page) {
    const std::uint64_t visible = state.pages()[page].visible;
    PageBest& best = bests[page];
    best.largest = std::numeric_limits<std::int64_t>::min();
    if (visible == 0) continue;
    best.octaves = std::int64_t{state.row_page(page, row).octave} * (1 << kCodeLogitBits);
    best.largest = best.octaves + page_kernels().largest(state.above(page, row), visible);
    largest = std::max(largest, best.largest);
  }
  // A bin in which `count` pages have their best token, or below it: no token further on counts.
  std::array<std::uint32_t, kBins> counts{};
  for (std::size_t page = 0; page < pages; ++page) {
    if (state.pages()[page].visible == 0) continue;
    ++counts[static_cast<std::size_t>(bin_of(largest - bests[page].largest))];
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
  const std::int64_t enough = bin_that_holds();
  // What lies in these bins: few tokens of few pages.
  std::vector<Candidate> candidates;
  counts.fill(0);
  for (std::size_t page = 0; page < pages; ++page) {
    const std::uint64_t visible = state.pages()[page].visible;
    if (visible == 0 || bin_of(largest - bests[page].largest) > enough) continue;
    const std::int16_t* const above = state.above(page, row);
    const std::int64_t of_page = largest - bests[page].octaves;
    for_each_bit(visible & tokens_within(above, of_page, enough), [&](std::size_t t) {
      const std::int64_t bin = bin_of(of_page - above[t]);
      ++counts[static_cast<std::size_t>(bin)];
      candidates.push_back({static_cast<std::uint32_t>(page), static_cast<std::uint16_t>(t),
                            static_cast<std::uint16_t>(bin)});
    });
  }
  const std::int64_t last = std::min(bin_that_holds(), enough);
  for (const Candidate& candidate : candidates) {
    if (candidate.bin <= last) (*tokens)[candidate.page] |= std::uint64_t{1} << candidate.token;
  }
}

}  // namespace

void best_by_codes(const CodeState& state, std::uint64_t count,
                   std::vector<std::uint64_t>* tokens) {
  std::uint64_t visible = 0;
  for (const CodedPage& page : state.pages()) {
    visible += static_cast<std::uint64_t>(std::popcount(page.visible));
  }
  tokens->assign(state.pages().size(), 0);
  if (visible <= count) {
    for (std::size_t page = 0; page < tokens->size(); ++page) {
      (*tokens)[page] = state.pages()[page].visible;
    }
    return;
  }
  if (count == 0) return;
  for (std::size_t row = 0; row < state.rows(); ++row) add_best(state, row, count, tokens);
}

}  // namespace nearkv
