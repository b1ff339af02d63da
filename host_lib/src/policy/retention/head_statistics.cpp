#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "nearkv/retention.hpp"
#include "policy/retention/observation.hpp"
#include "policy/retention/saved_numbers.hpp"

namespace nearkv {
namespace {

constexpr std::uint32_t kFormat = 3;

/// What comes before the other numbers, and those of pages.
struct SavedHeader {
  std::uint32_t format = kFormat;
  std::uint32_t page_tokens = 0;
  std::uint32_t pages = 0;
  std::uint32_t crc = 0;  ///< Of all else, this being 0.
  std::uint64_t queries = 0;
};
static_assert(sizeof(SavedHeader) == 24);

/// What comes between.
struct SavedNumbers {
  float fade = 0;
  float overlap = 0;
  float compared = 0;
};

}  // namespace

HeadStatistics::HeadStatistics(std::uint32_t page_tokens, float window)
    : page_tokens_(std::max(page_tokens, 1U)), fade_(std::exp2(-1 / std::max(window, 1.0F))) {}

void HeadStatistics::observe(const Observation& seen) {
  std::vector<std::uint32_t> pages;
  each_named(seen, [&](std::uint32_t id, float) { pages.push_back(id / page_tokens_); });
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  if (queries_ > 0) {
    std::vector<std::uint32_t> both;
    std::ranges::set_intersection(pages, last_pages_, std::back_inserter(both));
    overlap_ = fade_ * overlap_ + static_cast<float>(both.size());
    compared_ = fade_ * compared_ + static_cast<float>(pages.size());
  }
  last_pages_ = std::move(pages);
  ++queries_;
}

std::vector<std::byte> HeadStatistics::save() const {
  SavedHeader header;
  header.page_tokens = page_tokens_;
  header.pages = static_cast<std::uint32_t>(last_pages_.size());
  header.queries = queries_;
  const SavedNumbers numbers = {fade_, overlap_, compared_};
  std::vector<std::byte> saved(sizeof(header) + sizeof(numbers) +
                               last_pages_.size() * sizeof(std::uint32_t));
  std::span<std::byte> room = std::span(saved).subspan(sizeof(header));
  put(std::span(&numbers, 1), &room);
  put(std::span<const std::uint32_t>(last_pages_), &room);
  header.crc = saved_checksum(header, std::span(saved).subspan(sizeof(header)));
  std::memcpy(saved.data(), &header, sizeof(header));
  return saved;
}

Status HeadStatistics::restore(std::span<const std::byte> saved) {
  SavedHeader header;
  if (saved.size() < sizeof(header)) return Status::kBadArgument;
  take(&saved, std::span(&header, 1));
  SavedNumbers numbers;
  const std::size_t bytes = sizeof(numbers) + std::size_t{header.pages} * sizeof(std::uint32_t);
  if (header.format != kFormat || header.page_tokens != page_tokens_ || saved.size() != bytes ||
      header.crc != saved_checksum(header, saved)) {
    return Status::kBadArgument;
  }
  take(&saved, std::span(&numbers, 1));
  if (numbers.fade != fade_) return Status::kBadArgument;
  last_pages_.resize(header.pages);
  take(&saved, std::span(last_pages_));
  overlap_ = numbers.overlap;
  compared_ = numbers.compared;
  queries_ = header.queries;
  return Status::kOk;
}

float HeadStatistics::stability() const { return compared_ > 0 ? overlap_ / compared_ : 0; }

}  // namespace nearkv
