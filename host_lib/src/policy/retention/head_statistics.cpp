#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "nearkv/retention.hpp"
#include "policy/retention/observation.hpp"
#include "policy/retention/saved_numbers.hpp"

namespace nearkv {
namespace {

constexpr std::uint32_t kFormat = 1;

/// What comes before the numbers of tokens and pages.
struct SavedHeader {
  std::uint32_t format = kFormat;
  std::uint32_t page_tokens = 0;
  float fade = 0;
  std::uint32_t tokens = 0;
  std::uint32_t pages = 0;
  float weight = 0;
  float unnamed = 0;
  float overlap = 0;
  float compared = 0;
  std::uint32_t crc = 0;  ///< Of all else, this being 0.
  std::uint64_t queries = 0;
};
static_assert(sizeof(SavedHeader) == 48);

}  // namespace

HeadStatistics::HeadStatistics(std::uint32_t page_tokens, float window)
    : page_tokens_(std::max(page_tokens, 1U)), fade_(std::exp2(-1 / std::max(window, 1.0F))) {}

void HeadStatistics::observe(const Observation& seen) {
  sums_.resize(std::max<std::size_t>(sums_.size(), std::size_t{seen.position} + 1));
  squares_.resize(sums_.size());
  for (float& sum : sums_) sum *= fade_;
  for (float& square : squares_) square *= fade_;
  weight_ = fade_ * weight_ + static_cast<float>(seen.rows);
  unnamed_ = fade_ * unnamed_ + static_cast<float>(seen.rows);
  std::vector<std::uint32_t> pages;
  each_named(seen, [&](std::uint32_t id, float mass, std::size_t) {
    sums_[id] += mass;
    squares_[id] += mass * mass;
    unnamed_ -= mass;
    pages.push_back(id / page_tokens_);
  });
  unnamed_ = std::max(unnamed_, 0.0F);
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
  header.fade = fade_;
  header.tokens = static_cast<std::uint32_t>(sums_.size());
  header.pages = static_cast<std::uint32_t>(last_pages_.size());
  header.weight = weight_;
  header.unnamed = unnamed_;
  header.overlap = overlap_;
  header.compared = compared_;
  header.queries = queries_;
  std::vector<std::byte> saved(sizeof(header) + 2 * sums_.size() * sizeof(float) +
                               last_pages_.size() * sizeof(std::uint32_t));
  std::span<std::byte> room = std::span(saved).subspan(sizeof(header));
  put(std::span<const float>(sums_), &room);
  put(std::span<const float>(squares_), &room);
  put(std::span<const std::uint32_t>(last_pages_), &room);
  header.crc = saved_checksum(header, std::span(saved).subspan(sizeof(header)));
  std::memcpy(saved.data(), &header, sizeof(header));
  return saved;
}

Status HeadStatistics::restore(std::span<const std::byte> saved) {
  SavedHeader header;
  if (saved.size() < sizeof(header)) return Status::kBadArgument;
  take(&saved, std::span(&header, 1));
  const std::size_t bytes = 2 * std::size_t{header.tokens} * sizeof(float) +
                            std::size_t{header.pages} * sizeof(std::uint32_t);
  if (header.format != kFormat || header.page_tokens != page_tokens_ || header.fade != fade_ ||
      saved.size() != bytes || header.crc != saved_checksum(header, saved)) {
    return Status::kBadArgument;
  }
  sums_.resize(header.tokens);
  squares_.resize(header.tokens);
  last_pages_.resize(header.pages);
  take(&saved, std::span(sums_));
  take(&saved, std::span(squares_));
  take(&saved, std::span(last_pages_));
  weight_ = header.weight;
  unnamed_ = header.unnamed;
  overlap_ = header.overlap;
  compared_ = header.compared;
  queries_ = header.queries;
  return Status::kOk;
}

float HeadStatistics::mean_of(std::size_t token) const {
  return (sums_[token] + unnamed_ / static_cast<float>(sums_.size())) / weight_;
}

float HeadStatistics::entropy() const {
  double nats = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double mean = mean_of(i);
    if (mean > 0) nats -= mean * std::log(mean);
  }
  return static_cast<float>(std::max(nats, 0.0));
}

float HeadStatistics::variance() const {
  if (weight_ == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double mean = sums_[i] / weight_;
    sum += std::max(squares_[i] / weight_ - mean * mean, 0.0);
  }
  return static_cast<float>(std::min(sum, 1.0));
}

float HeadStatistics::stability() const { return compared_ > 0 ? overlap_ / compared_ : 0; }

}  // namespace nearkv
