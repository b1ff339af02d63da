#include "codes/code_sums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "attend/dense.hpp"
#include "codes/code_form.hpp"
#include "codes/exact_logit.hpp"
#include "codes/transform.hpp"

namespace nearkv {
namespace {

constexpr std::int64_t kMostValue = (std::int64_t{1} << 24) - 1;
constexpr int kMostResidual = 48;  ///< Bits.

/// Whether a mean, moved by so many octaves, is a value that nothing is cut off from.
bool is_mean_short(int power) { return power >= 0 && power <= 16; }

/// F by factor, of two planes and of three.
constexpr auto kResidualFactors = [] {
  std::array<std::array<std::int16_t, kTopFactor + 1>, NKV_VALUE_CODE_PLANES - 1> all{};
  for (std::size_t planes = 2; planes <= NKV_VALUE_CODE_PLANES; ++planes) {
    for (int factor = 1; factor <= kTopFactor; ++factor) {
      const Octaves octave = octaves(kValueCodes.factor_step * (factor - kTopFactor));
      const int product = octave.mantissa * kValueCodes.ratio[planes - 1];
      // All 16 bits of it count.
      all[planes - 2][static_cast<std::size_t>(factor)] =
          static_cast<std::int16_t>(product >> (-octave.power - 11 + 4));
    }
  }
  return all;
}();

}  // namespace

void align_value(const RowSource& values, std::size_t token, int exponent, std::size_t dim,
                 float* buffer, std::int32_t* aligned) {
  if (values.dtype == NKV_DTYPE_BF16) {
    std::array<std::uint16_t, NKV_MAX_HEAD_DIM> expanded;
    const std::uint8_t* const row = values.row(token);
    const auto* numbers = reinterpret_cast<const std::uint16_t*>(row);
    if (values.is_delta4()) {
      page_kernels().expand_delta4(row, values.exponents, values.dim, expanded.data());
      numbers = expanded.data();
    }
    page_kernels().align_bf16(numbers, dim, exponent, aligned);
    return;
  }
  values.decode(token, buffer);
  for (std::size_t c = 0; c < dim; ++c) {
    const auto bits = std::bit_cast<std::uint32_t>(buffer[c]);
    const auto own = static_cast<int>(bits >> 23 & 0xFF);
    const std::uint32_t significand = own == 0 ? 0 : (bits & 0x7FFFFF) | 0x800000;
    // An element above its list's exponent is a forged page's.
    const int shift = std::clamp(exponent - own, 0, 31);
    const auto magnitude = static_cast<std::int32_t>(significand >> shift);
    aligned[c] = bits >> 31 != 0 ? -magnitude : magnitude;
  }
}

void CodeSums::finish(int value_exponent, SoftmaxState* state) const {
  state->reset(rows(), dim);
  const std::vector<std::uint16_t> order = kernel_order(dim);
  const double unit = std::ldexp(1.0, value_exponent - 126);
  for (std::size_t row = 0; row < rows(); ++row) {
    if (z[row] == 0) continue;
    const auto total = static_cast<double>(z[row]);
    state->sum[row] = 1;
    state->maximum[row] =
        static_cast<float>(static_cast<double>(reference[row] - 41) + std::log2(total));
    for (std::size_t c = 0; c < dim; ++c) {
      const double quotient = static_cast<double>(values(row)[c]) / total;
      state->values(row)[order[c]] = static_cast<float>(quotient * unit);
    }
  }
}

void PageSummer::begin(const CodeState* state, const PageList* list, std::size_t value_dim) {
  state_ = state;
  kernels_ = &page_kernels();
  dim_ = value_dim;
  value_exponent_ = list->v_exponent();
  mean_.reserve(dim_);
  aligned_.reserve(values_.size() * dim_);
  decoded_.reserve(NKV_MAX_HEAD_DIM);
  coded_.reserve(state->rows() * dim_);
  wide_.reserve(dim_);
  shares_.reserve(state->rows() * NKV_PAGE_TOKENS);
  weights_.resize(kPagesOfMeans * state->rows());
  shifts_.resize(kPagesOfMeans * state->rows());
  value_weights_.resize(values_.size() * state->rows());
  value_shifts_.resize(values_.size() * state->rows());
  waiting_ = values_waiting_ = 0;
  factors_.reserve(NKV_PAGE_TOKENS);
  value_factors_.reserve(NKV_PAGE_TOKENS);
}

void PageSummer::raise(std::size_t page, std::vector<std::int64_t>* references) const {
  if (state_->pages()[page].visible == 0) return;
  const RowPage* const scored = &state_->row_page(page, 0);
  const std::size_t rows = references->size();
  std::int64_t* const largest = references->data();
  for (std::size_t row = 0; row < rows; ++row) {
    if (scored[row].rest == 0) continue;
    largest[row] = std::max(largest[row], std::int64_t{scored[row].rest_octave});
  }
  const PageReads& reads = state_->reads()[page];
  if (reads.alone() == 0) return;
  state_->for_each_exact(page, [&](std::uint32_t, std::span<const std::int64_t> logits) {
    for (std::size_t row = 0; row < rows; ++row) {
      largest[row] = std::max(largest[row], logits[row] >> 16);
    }
  });
  for_each_bit(reads.value_rows & ~reads.key_rows, [&](std::size_t token) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int16_t drawn = state_->drawn(page, row)[token];
      largest[row] = std::max<std::int64_t>(
          largest[row], std::int64_t{scored[row].octave} + (drawn >> kCodeLogitBits));
    }
  });
}

/// Has a value wait for what rows weigh it by.
PageSummer::Waiting PageSummer::wait_value(std::size_t rows) {
  const std::size_t at = values_waiting_++;
  values_[at] = aligned_.data() + at * dim_;
  return {aligned_.data() + at * dim_, value_weights_.data() + at * rows,
          value_shifts_.data() + at * rows};
}

/// Adds what does not stand alone of a page whose mean is to be moved by so many octaves.
void PageSummer::add_rests(std::size_t page, int power, CodeSums* sums) {
  const std::size_t rows = sums->rows();
  const RowPage* const scored = &state_->row_page(page, 0);
  const bool is_short = is_mean_short(power);
  Waiting own{nullptr, weights_.data() + waiting_ * rows, shifts_.data() + waiting_ * rows};
  if (!is_short) {
    own = wait_value(rows);
    std::copy_n(mean_.data(), dim_, own.value);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t below = sums->reference[row] - scored[row].rest_octave;
    const bool is_zero = scored[row].rest == 0 || below > LogitWeight::kLargestShift;
    const auto shift = static_cast<std::int32_t>(is_zero ? 0 : below);
    own.weights[row] = is_zero ? 0 : scored[row].rest;
    own.shifts[row] = is_short ? shift - power : shift;
    sums->z[row] += (std::int64_t{own.weights[row]} << 24) >> shift;
  }
  if (is_short) means_[waiting_++] = state_->pages()[page].values.mean;
  if (waiting_ == means_.size() || values_waiting_ == values_.size()) finish(sums);
}

void PageSummer::finish(CodeSums* sums) {
  if (waiting_ != 0) {
    kernels_->add_means({.values = means_.data(),
                         .weights = weights_.data(),
                         .shifts = shifts_.data(),
                         .count = waiting_,
                         .rows = sums->rows(),
                         .dim = dim_},
                        sums->acc.data());
    waiting_ = 0;
  }
  if (values_waiting_ != 0) {
    kernels_->add_values({.values = values_.data(),
                          .weights = value_weights_.data(),
                          .shifts = value_shifts_.data(),
                          .count = values_waiting_,
                          .rows = sums->rows(),
                          .dim = dim_},
                         sums->acc.data());
    values_waiting_ = 0;
  }
}

/// By how many octaves a mean of a page is to be moved to the list's.
int PageSummer::mean_power(const CodedTensor& values) const {
  return values.mean_power - value_exponent_ + 150;
}

/// Takes a page's mean for the value of what follows.
void PageSummer::take_mean(const CodedTensor& values) {
  const int power = mean_power(values);
  for (std::size_t c = 0; c < dim_; ++c) {
    const auto mean = std::int32_t{values.mean[c]};
    if (is_mean_short(power)) {
      mean_.data()[c] = mean * (1 << power);
      continue;
    }
    const std::int64_t magnitude = scale_saturating(Int128{std::abs(mean)}, power, kMostValue);
    mean_.data()[c] = static_cast<std::int32_t>(mean < 0 ? -magnitude : magnitude);
  }
}

void PageSummer::add_alone(std::size_t page, const RowSource& rows, CodeSums* sums) {
  const PageReads& reads = state_->reads()[page];
  const auto add = [&](std::size_t token, const auto& logit_of) {
    const Waiting own = wait_value(sums->rows());
    if ((reads.value_rows >> token & 1) != 0) {
      align_value(rows, token, value_exponent_, dim_, decoded_.data(), own.value);
    } else {
      std::copy_n(mean_.data(), dim_, own.value);
    }
    for (std::size_t row = 0; row < sums->rows(); ++row) {
      const LogitWeight weight = weight_of(logit_of(row), sums->reference[row]);
      own.weights[row] = weight.is_zero() ? 0 : weight.mantissa;
      own.shifts[row] = weight.is_zero() ? 0 : static_cast<std::int32_t>(weight.shift);
      sums->z[row] += (std::int64_t{own.weights[row]} << 24) >> own.shifts[row];
    }
    if (values_waiting_ == values_.size()) finish(sums);
  };
  state_->for_each_exact(page, [&](std::uint32_t token, std::span<const std::int64_t> logits) {
    add(token, [&](std::size_t row) { return logits[row]; });
  });
  for_each_bit(reads.value_rows & ~reads.key_rows, [&](std::size_t token) {
    add(token, [&](std::size_t row) {
      const std::int64_t score =
          std::int64_t{state_->row_page(page, row).octave} * (1 << kCodeLogitBits) +
          state_->drawn(page, row)[token];
      return score * (1 << kExactToCode);
    });
  });
}

/// F of a page's tokens by planes, to factors_.
void PageSummer::take_residual_factors(const CodedPage& coded,
                                       std::span<const std::uint64_t> tokens) {
  kernels_->unpack_factors(coded.values.factors, value_factors_.data());
  std::fill_n(factors_.data(), NKV_PAGE_TOKENS, std::int16_t{0});
  for (std::size_t planes = 2; planes < tokens.size(); ++planes) {
    if (tokens[planes] == 0) continue;
    kernels_->look_up_some(value_factors_.data(), kResidualFactors[planes - 2].data(),
                           tokens[planes], factors_.data());
  }
}

void PageSummer::add_residuals(std::size_t page, CodeSums* sums) {
  const CodedPage& coded = state_->pages()[page];
  const PageReads& reads = state_->reads()[page];
  const std::size_t rows = sums->rows();
  auto tokens = reads.valued;
  for (std::uint64_t& some : tokens) some &= coded.visible & ~reads.value_rows;
  take_residual_factors(coded, tokens);
  std::array<std::uint64_t, NKV_MAX_GROUP> of_row;
  std::uint64_t of_any = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    of_row[row] = kernels_->coded_shares(state_->drawn(page, row), state_->row_page(page, row).top,
                                         factors_.data(), shares_.data() + row * NKV_PAGE_TOKENS);
    of_any |= of_row[row];
  }
  if (of_any == 0) return;
  for (std::uint64_t& some : tokens) some &= of_any;
  kernels_->coded_sums({coded.values.planes.data(), tokens.data(), dim_}, shares_.data(), rows,
                       coded_.data());
  for (std::size_t row = 0; row < rows; ++row) {
    if (of_row[row] == 0) continue;
    const RowPage& scored = state_->row_page(page, row);
    add_transposed(coded, coded_.data() + row * dim_,
                   scored.top + scored.octave - sums->reference[row], sums->values(row).data());
  }
}

/// Adds Y of a page, transposed, whose weights are so many octaves from the row's reference.
void PageSummer::add_transposed(const CodedPage& coded, std::int32_t* sums, std::int64_t octaves_up,
                                std::int64_t* acc) {
  const Octaves top = octaves(coded.values.top);
  const std::int64_t power = octaves_up + top.power + 4 - value_exponent_ + 150;
  if (is_one_short_block(dim_)) {
    // The transform's 15 bits and the shift by them cancel.
    kernels_->hadamard(sums, dim_);
    kernels_->add_signed(sums, minus_signs(coded.sign_set).data(), dim_, top.mantissa,
                         static_cast<int>(std::clamp<std::int64_t>(power, -63, kMostResidual)),
                         kMostResidual, acc);
    return;
  }
  const int shift = static_cast<int>(std::max<std::int64_t>(power - kTransposeBits, -256));
  std::copy_n(sums, dim_, wide_.data());
  transpose(wide_.data(), dim_, coded.sign_set);
  for (std::size_t c = 0; c < dim_; ++c) {
    acc[c] += scale_saturating(Int128{wide_.data()[c]} * top.mantissa, shift,
                               std::int64_t{1} << kMostResidual);
  }
}

void PageSummer::add(std::size_t page, const RowSource& rows, CodeSums* sums) {
  const CodedPage& coded = state_->pages()[page];
  if (coded.visible == 0) return;
  if (!coded.is_coded) return add_alone(page, rows, sums);
  const PageReads& reads = state_->reads()[page];
  const int power = mean_power(coded.values);
  if (reads.alone() != 0 || !is_mean_short(power)) take_mean(coded.values);
  add_rests(page, power, sums);
  if (reads.alone() != 0) add_alone(page, rows, sums);
  if (reads.any_valued() != 0) add_residuals(page, sums);
}

}  // namespace nearkv
