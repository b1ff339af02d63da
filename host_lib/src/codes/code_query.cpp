#include "codes/code_query.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "codes/code_form.hpp"
#include "codes/code_kernels.hpp"
#include "codes/page_kernels.hpp"
#include "codes/round_row.hpp"
#include "codes/transform.hpp"

namespace nearkv {
namespace {

constexpr int kQueryBits = 23;
constexpr int kVarianceOfOnePlane = 59;
constexpr int kSearchBits = 23;

int bits_of(std::int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::abs(value))));
}

std::int64_t rounded_shift(std::int64_t value, int bits) {
  return bits == 0 ? value : (value + (std::int64_t{1} << (bits - 1))) >> bits;
}

void transform(std::span<std::int64_t> row, unsigned set) {
  apply_signs(row.data(), row.size(), set);
  for (std::size_t at = 0; at < row.size();) {
    const CodeBlock block = code_block(row.size(), at);
    hadamard_block(row.data() + at, block.size);
    for (std::size_t c = at; c < at + block.size && block.scale != 0; ++c) {
      row[c] = rounded_shift(row[c] * block.scale, 15);
    }
    at += block.size;
  }
}

}  // namespace

void CodeQuery::prepare(const Query& query, std::span<const std::int8_t> gains, float scale) {
  const LogitScale logit(scale);
  factor_ = std::abs(logit.factor());
  power_ = logit.power() + 261;
  negative_ = logit.factor() < 0;
  prepare_rows(query, gains);
  tabulate_multipliers();
}

void CodeQuery::prepare_search(const Query& query, std::span<const std::int8_t> gains, int top) {
  factor_ = 1 << kSearchBits;
  power_ = -kSearchBits;
  negative_ = false;
  prepare_rows(query, gains);
  for (Row& row : rows_) {
    if (row.is_zero) continue;
    row.search_power = (kSearchVariance - row.variance - 2 * top - log2_sixteenths(dim_)) >> 5;
    row.power += row.search_power;
    row.variance += 32 * row.search_power;
  }
  tabulate_multipliers();
}

std::int64_t CodeQuery::search_logit(std::size_t row, std::int64_t score, int key_exponent) const {
  const int power = rows_[row].exponent + key_exponent + rows_[row].search_power - 261;
  return scale_saturating(Int128{score >> 24}, power, kMostLogit);
}

void CodeQuery::prepare_rows(const Query& query, std::span<const std::int8_t> gains) {
  dim_ = query.dim();
  padded_ = padded_channels(dim_);
  rows_.assign(query.rows(), {});
  values_.resize(query.rows() * dim_);
  halves_.reserve(2 * query.rows() * padded_);
  std::fill_n(halves_.data(), 2 * query.rows() * padded_, std::int16_t{0});
  for (std::size_t row = 0; row < rows_.size(); ++row) prepare_row(query, row, gains);
  for (std::atomic<bool>& is_made : are_made_) is_made.store(false, std::memory_order_relaxed);
}

void CodeQuery::tabulate_multipliers() {
  if (tabulated_factor_ == factor_) return;
  tabulated_factor_ = factor_;
  multipliers_.clear();
  for (const int ratio : kKeyCodes.ratio) {
    multipliers_.push_back(std::make_unique<MultiplierTable>([&](int sixteenths) {
      const Octaves octave = octaves(sixteenths);
      return scale_saturating(Int128{factor_} * octave.mantissa * ratio, octave.power + 11,
                              kLoudMultiplier - 1);
    }));
  }
}

void CodeQuery::prepare_row(const Query& query, std::size_t row,
                            std::span<const std::int8_t> gains) {
  const std::span<const std::int32_t> aligned = query.aligned(row);
  Row& made = rows_[row];
  made.exponent = query.exponent(row);
  int top = 0;
  for (std::size_t c = 0; c < dim_; ++c) {
    if (aligned[c] == 0) continue;
    const Octaves inverse = octaves(-gains[c]);
    const int own = bits_of(std::int64_t{aligned[c]} * inverse.mantissa) + inverse.power + 11;
    top = made.is_zero ? own : std::max(top, own);
    made.is_zero = false;
  }
  std::uint64_t energy = 0;
  for (std::size_t c = 0; c < dim_; ++c) {
    const Octaves inverse = octaves(-gains[c]);
    const std::int64_t magnitude = std::abs(std::int64_t{aligned[c]} * inverse.mantissa);
    const int shift = top - kQueryBits - inverse.power - 11;
    const std::int64_t kept = shift >= 0 ? magnitude >> std::min(shift, 63) : magnitude << -shift;
    const bool minus = (aligned[c] < 0) != negative_;
    const auto value = static_cast<std::int32_t>(minus ? -kept : kept);
    values_[row * dim_ + c] = value;
    energy += static_cast<std::uint64_t>(kept * kept);
    std::int16_t* const upper = halves_.data() + 2 * row * padded_;
    upper[c] = static_cast<std::int16_t>(value >> 12);
    upper[padded_ + c] = static_cast<std::int16_t>(value & 4095);
  }
  if (made.is_zero) return;
  made.power = top + query.exponent(row) - 183 + power_;
  const std::int64_t log = 2 * log2_fixed(static_cast<std::uint64_t>(factor_)) + log2_fixed(energy);
  made.variance = static_cast<int>(log >> 20) + 16 * log2_last_block(dim_) + 32 * made.power +
                  kVarianceOfOnePlane;
}

const CodeQuery::SetRows& CodeQuery::under(unsigned set) const {
  if (!are_made_[set].load(std::memory_order_acquire)) {
    const std::scoped_lock lock(mutex_);
    if (!are_made_[set].load(std::memory_order_relaxed)) {
      prepare_set(set);
      are_made_[set].store(true, std::memory_order_release);
    }
  }
  return sets_[set];
}

void CodeQuery::prepare_set(unsigned set) const {
  SetRows& made = sets_[set];
  const std::size_t row_entries = plane_tables(dim_) * kTableEntries;
  made.power.assign(rows(), 0);
  made.first_multiplier.assign(rows(), 0);
  made.length.assign(rows(), 0);
  made.total.assign(rows(), 0);
  made.weights.assign(rows() * padded_, 0);
  made.tables.reserve(rows() * row_entries);
  std::array<std::int64_t, NKV_MAX_HEAD_DIM> exact;
  std::array<std::int32_t, NKV_MAX_HEAD_DIM> short_exact;
  const auto minus = minus_signs(set);
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::int32_t* const values = values_.data() + row * dim_;
    std::int16_t* const weights = made.weights.data() + row * padded_;
    if (is_one_short_block(dim_)) {
      for (std::size_t c = 0; c < dim_; ++c) short_exact[c] = (values[c] ^ minus[c]) - minus[c];
      page_kernels().hadamard(short_exact.data(), dim_);
      take_weights(page_kernels().round_weights(short_exact.data(), dim_, weights), row, &made);
    } else {
      std::copy_n(values, dim_, exact.data());
      transform(std::span(exact).first(dim_), set);
      take_weights(round_row(std::span(std::as_const(exact)).first(dim_), weights), row, &made);
    }
    page_kernels().tabulate(weights, dim_, made.tables.data() + row * row_entries);
  }
}

/// Takes down what a row's weights are made of.
void CodeQuery::take_weights(const RowWeights& weights, std::size_t row, SetRows* made) const {
  made->power[row] = weights.power;
  made->length[row] = weights.length;
  made->total[row] = weights.total;
  // Beyond these octaves they are all loud, or all zero.
  const int octave =
      std::clamp(rows_[row].power + weights.power + NKV_KEY_CODE_PLANES - 1, -4096, 4096);
  made->first_multiplier[row] = 16 * octave - kTopFactor * kKeyCodes.factor_step;
}

std::int32_t CodeQuery::exact_multiplier(std::size_t row, const SetRows& set, int sixteenths,
                                         int planes) const {
  if (rows_[row].is_zero) return 0;
  const Octaves octave = octaves(sixteenths);
  const int power =
      rows_[row].power + set.power[row] + octave.power + 11 + NKV_KEY_CODE_PLANES - planes;
  const std::int64_t ratio = kKeyCodes.ratio[static_cast<std::size_t>(planes - 1)];
  return static_cast<std::int32_t>(
      scale_saturating(Int128{factor_} * octave.mantissa * ratio, power, kLoudMultiplier));
}

}  // namespace nearkv
