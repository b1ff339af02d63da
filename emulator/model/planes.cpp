#include "planes.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr int kRemainderBits = 12;
constexpr int64_t kTruncationSlack = 4;  // Covers the truncation of k̄ and q̄.

// ceil(value / 2^n), value >= 0.
int64_t ceiling_shift(Int128 value, int n) { return static_cast<int64_t>(-floor_shift(-value, n)); }

// The least B >= 0 with 3072 · B² >= z² · Σ w² · 4^(8 − L), z in sixteenths.
int64_t likely_uncertainty(int64_t squares, int planes, uint32_t sixteenths) {
  const Int128 wanted = Int128{sixteenths} * sixteenths * squares << 2 * (8 - planes);
  const auto falls_short = [wanted](int64_t b) { return 3072 * Int128{b} * b < wanted; };
  if (!falls_short(0)) return 0;
  int64_t largest_below = 0;
  for (int64_t bit = int64_t{1} << 31; bit != 0; bit >>= 1) {
    if (falls_short(largest_below + bit)) largest_below += bit;
  }
  return largest_below + 1;
}

}  // namespace

std::vector<ChannelCells> page_cells(const Page& page) {
  const auto stored = page.array(NKV_PAGE_ARRAY_K_DIGEST);
  std::vector<ChannelCells> cells;
  for (size_t channel = 0; channel < page.header().head_dim; ++channel) {
    uint16_t entry;
    std::memcpy(&entry, stored.subspan(channel * sizeof(entry)).data(), sizeof(entry));
    cells.push_back(decode_digest(entry, page.header().k_step_exponent));
  }
  return cells;
}

bool plane_bit(const Page& page, int plane, uint32_t token, uint32_t channel) {
  const auto bits = page.array(static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane - 1));
  const size_t row_bytes = page.header().head_dim / 8;
  const auto byte = std::to_integer<uint32_t>(bits[token * row_bytes + channel / 8]);
  return (byte >> channel % 8 & 1) != 0;
}

std::vector<uint8_t> leading_codes(const Page& page, int planes) {
  const uint32_t head_dim = page.header().head_dim;
  std::vector<uint8_t> codes(size_t{NKV_PAGE_TOKENS} * head_dim);
  for (int plane = 1; plane <= planes; ++plane) {
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (uint32_t channel = 0; channel < head_dim; ++channel) {
        if (!plane_bit(page, plane, token, channel)) continue;
        uint8_t& code = codes[token * head_dim + channel];
        code = static_cast<uint8_t>(code | 1u << (8 - plane));
      }
    }
  }
  return codes;
}

PlaneWeights::PlaneWeights(std::span<const int32_t> query, std::span<const ChannelCells> cells,
                           int key_exponent) {
  Int128 remainder = 0;
  for (size_t c = 0; c < query.size(); ++c) {
    // One step of the channel is 2^g key units times m; q̄ · m · 2^(g − 32) weight units. Only a
    // forged digest has a g above 16; far below, all weights are zero.
    const int g = cells[c].exponent - key_exponent + 152;
    const int fraction_bits = NKV_PLANE_WEIGHT_SHIFT - std::clamp(g, -68, 16);
    const Int128 exact = Int128{query[c]} * cells[c].m;
    const Int128 half = Int128{1} << (fraction_bits - 1);
    const auto weight = static_cast<int64_t>(floor_shift(exact + half, fraction_bits));
    const Int128 error = exact - (Int128{weight} << fraction_bits);
    const int64_t d = ceiling_shift((error < 0 ? -error : error) << kRemainderBits, fraction_bits);

    const int64_t centre = NKV_CODE_BASE_STEP * cells[c].base + 128;
    weights_.push_back(weight);
    constant_ += weight * centre;
    weight_sum_ += std::abs(weight);
    squares_ += weight * weight;
    remainder += Int128{d} * (128 + std::abs(centre));
  }
  remainder_ = ceiling_shift(remainder, kRemainderBits);
}

int64_t PlaneWeights::midpoint(std::span<const uint8_t> codes, int planes) const {
  const int64_t half_cell = int64_t{1} << (7 - planes);
  int64_t sum = constant_;
  for (size_t c = 0; c < weights_.size(); ++c) sum += weights_[c] * (codes[c] - 128 + half_cell);
  return sum;
}

int64_t PlaneWeights::step_of_plane(const Page& page, int plane, uint32_t token) const {
  int64_t sum = 0;
  for (uint32_t c = 0; c < weights_.size(); ++c) {
    sum += plane_bit(page, plane, token, c) ? weights_[c] : -weights_[c];
  }
  return sum * (int64_t{1} << (7 - plane));
}

int64_t radius(const RadiusTerms& terms, int planes, uint32_t sixteenths) {
  const int64_t cell = (int64_t{1} << (7 - planes)) * terms.weight_sum;
  const int64_t likely = likely_uncertainty(terms.squares, planes, sixteenths);
  return std::min(cell, likely) + terms.remainder + kTruncationSlack;
}

}  // namespace nearkv::model
