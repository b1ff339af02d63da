#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "nearkv/retention.hpp"
#include "policy/retention/observation.hpp"

namespace nearkv {

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
  pages.erase(std::ranges::unique(pages).begin(), pages.end());
  if (queries_ > 0) {
    std::vector<std::uint32_t> both;
    std::ranges::set_intersection(pages, last_pages_, std::back_inserter(both));
    overlap_ = fade_ * overlap_ + static_cast<float>(both.size());
    compared_ = fade_ * compared_ + static_cast<float>(pages.size());
  }
  last_pages_ = std::move(pages);
  ++queries_;
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
