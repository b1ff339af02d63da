// next_pages: speculative prefetch of the pages that the next step will select.
//
// The pages worth most together, by a policy that tells what the last queries selected
// (heavy_hitters with a decay of 0.5), which the next query mostly repeats; pages worth nothing are
// not fetched. PrefetchRecord counts what fetched pages were good for.
#include <algorithm>
#include <iterator>

#include "nearkv/retention.hpp"

namespace nearkv {
namespace {

struct Page {
  std::uint32_t number = 0;
  float worth = 0;
};

std::vector<std::uint32_t> sorted(std::span<const std::uint32_t> pages) {
  std::vector<std::uint32_t> copy(pages.begin(), pages.end());
  std::ranges::sort(copy);
  copy.erase(std::unique(copy.begin(), copy.end()), copy.end());
  return copy;
}

float share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<float>(part) / static_cast<float>(whole);
}

}  // namespace

std::vector<std::uint32_t> next_pages(std::span<const float> worth, std::uint32_t page_tokens,
                                      std::size_t count) {
  std::vector<Page> pages;
  for (std::size_t i = 0; i < worth.size(); ++i) {
    if (i % page_tokens == 0) pages.push_back({static_cast<std::uint32_t>(pages.size()), 0});
    pages.back().worth += worth[i];
  }
  std::erase_if(pages, [](const Page& page) { return !(page.worth > 0); });
  std::ranges::stable_sort(pages, std::ranges::greater(), &Page::worth);
  std::vector<std::uint32_t> best;
  for (const Page& page : std::span(pages).first(std::min(count, pages.size()))) {
    best.push_back(page.number);
  }
  return best;
}

void PrefetchRecord::add(std::span<const std::uint32_t> fetched,
                         std::span<const std::uint32_t> used) {
  const auto before = sorted(fetched);
  const auto asked = sorted(used);
  std::vector<std::uint32_t> both;
  std::ranges::set_intersection(before, asked, std::back_inserter(both));
  fetched_ += before.size();
  used_ += asked.size();
  hits_ += both.size();
}

float PrefetchRecord::coverage() const { return share(hits_, used_); }

float PrefetchRecord::accuracy() const { return share(hits_, fetched_); }

}  // namespace nearkv
