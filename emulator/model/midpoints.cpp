#include "midpoints.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "number.hpp"

namespace nearkv::model {

namespace {

int16_t clamp_midpoint(int64_t value) {
  return static_cast<int16_t>(std::clamp<int64_t>(value, -kMidpointLimit, kMidpointLimit));
}

int bin_of(int32_t midpoint) { return (midpoint + 32768) >> 4; }

// Section 5.1: X = max(0, bits(1024 · max(W, 1)) − 15).
int midpoint_shift(int64_t weight_sum) {
  const auto scaled = static_cast<uint64_t>(1024 * std::max<int64_t>(weight_sum, 1));
  return std::max(0, static_cast<int>(std::bit_width(scaled)) - 15);
}

}  // namespace

Midpoints::Midpoints(const ListedPages& pages, const Query& query, int key_exponent, int planes)
    : pages_(&pages),
      query_(&query),
      key_exponent_(key_exponent),
      scanned_planes_(planes),
      scales_(query.rows()),
      radius_terms_(query.rows() * pages.size()),
      midpoints_(query.rows() * pages.size() * NKV_PAGE_TOKENS, kHiddenMidpoint) {
  for (size_t page = 0; page < pages.size(); ++page) scan_page(page);
}

void Midpoints::scan_page(size_t page) {
  const ListedPage& listed = (*pages_)[page];
  const auto codes = leading_codes(listed.page, scanned_planes_);
  const auto weights = weights_of(page);
  const size_t head_dim = listed.page.header().head_dim;
  for (size_t row = 0; row < query_->rows(); ++row) {
    const PlaneWeights& row_weights = weights[row];
    radius_terms_[row * pages_->size() + page] = {.weight_sum = row_weights.weight_sum(),
                                                  .squares = row_weights.squares(),
                                                  .remainder = row_weights.remainder()};
    if (page == 0) {
      scales_[row] = {.reference = row_weights.constant(),
                      .shift = midpoint_shift(row_weights.weight_sum())};
    }
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token(listed.visible, token)) continue;
      const auto code = std::span(codes).subspan(token * head_dim, head_dim);
      const int64_t midpoint = row_weights.midpoint(code, scanned_planes_);
      midpoints_[slot(row, page, token)] =
          clamp_midpoint(floor_shift(midpoint - reference(row), shift(row)));
    }
  }
}

std::vector<PlaneWeights> Midpoints::weights_of(size_t page) const {
  const auto cells = page_cells((*pages_)[page].page);
  std::vector<PlaneWeights> weights;
  for (size_t row = 0; row < query_->rows(); ++row) {
    weights.emplace_back(query_->row(row), cells, key_exponent_);
  }
  return weights;
}

void Midpoints::sharpen(size_t page, uint32_t token, int plane,
                        const std::vector<PlaneWeights>& weights) {
  for (size_t row = 0; row < query_->rows(); ++row) {
    int16_t& midpoint = midpoints_[slot(row, page, token)];
    if (midpoint == kMidpointLimit) continue;
    const int64_t step = weights[row].step_of_plane((*pages_)[page].page, plane, token);
    midpoint = clamp_midpoint(midpoint + floor_shift(step, shift(row)));
  }
}

int Midpoints::threshold(size_t row, uint64_t count) const {
  std::array<uint64_t, NKV_HISTOGRAM_BINS> bins{};
  for (size_t page = 0; page < pages_->size(); ++page) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!has_token((*pages_)[page].visible, token)) continue;
      ++bins[static_cast<size_t>(bin_of(at(row, page, token)))];
    }
  }
  uint64_t reached = 0;
  for (int bin = NKV_HISTOGRAM_BINS - 1; bin > 0; --bin) {
    reached += bins[static_cast<size_t>(bin)];
    if (reached >= count) return bin;
  }
  return 0;
}

TokenSet Midpoints::best(uint64_t count) const {
  TokenSet visible = pages_->visible();
  if (count_tokens(visible) <= count) return visible;
  TokenSet chosen = pages_->none();
  for (size_t row = 0; row < query_->rows(); ++row) {
    const int least = threshold(row, count);
    for (size_t page = 0; page < pages_->size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (has_token(visible[page], token) && bin_of(at(row, page, token)) >= least) {
          chosen[page] |= token_bit(token);
        }
      }
    }
  }
  return chosen;
}

int64_t Midpoints::stored_radius(size_t row, size_t page, int planes, uint32_t sixteenths) const {
  const int64_t scaled =
      floor_shift(radius(radius_terms(row, page), planes, sixteenths), shift(row));
  return std::min<int64_t>(scaled + 2 + (planes - scanned_planes_), 65535);
}

int32_t Midpoints::stored_tau(size_t row, int64_t tau) const {
  return clamp_midpoint(
      floor_shift(floor_shift(tau, NKV_PLANE_WEIGHT_SHIFT) - reference(row), shift(row)));
}

}  // namespace nearkv::model
