#include "row_codes.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>

#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr size_t kTokens = NKV_PAGE_TOKENS;
constexpr int kNumberBits = 14;  // |x̂| < 2^14.
constexpr int kUnit = 126 + 14;  // One unit of x̂ is 2^(X − 140).
constexpr int kLengthBits = 14;  // Σ |r| of a row is brought into [2^13, 2^14).
constexpr int kCoarseBits = 4;   // y = z / 16.
constexpr int kFactorBits = 8;   // F = 256 · E / P.
constexpr int64_t kMostCells = 32767;

// An element times its gain: ±magnitude · 2^(exponent − 161), magnitude below 2^36.
struct Gained {
  bool negative = false;
  int64_t magnitude = 0;
  int exponent = 0;

  Gained(const Number& element, int gain) {
    const Octaves step = octaves(gain);
    negative = element.negative;
    magnitude = element.significand * step.mantissa;
    exponent = element.exponent + step.power + 11;
  }

  // X of this element alone: it lies below 2^(X − 126), and not below half of that.
  [[nodiscard]] int top() const {
    return exponent + static_cast<int>(std::bit_width(static_cast<uint64_t>(magnitude))) - 35;
  }

  // Truncated to units of 2^(top − 140).
  [[nodiscard]] int64_t fixed(int top) const {
    const int64_t value = floor_shift(magnitude, top - exponent + 35 - kNumberBits);
    return negative ? -value : value;
  }
};

// x̂ of a page [PAGE_TOKENS][channels], in units of 2^(top − 140).
struct FixedRows {
  int top = 0;
  std::vector<int64_t> values;
};

FixedRows fix_rows(std::span<const Number> rows, std::span<const int8_t> gains) {
  const size_t channels = rows.size() / kTokens;
  std::vector<Gained> gained;
  std::optional<int> top;
  for (size_t i = 0; i < rows.size(); ++i) {
    gained.emplace_back(rows[i], gains.empty() ? 0 : gains[i % channels]);
    if (rows[i].significand != 0) top = std::max(top.value_or(gained[i].top()), gained[i].top());
  }
  FixedRows fixed{.top = top.value_or(0), .values = {}};
  for (const Gained& element : gained) {
    fixed.values.push_back(element.magnitude == 0 ? 0 : element.fixed(fixed.top));
  }
  return fixed;
}

int bits_of(int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(value)));
}

// Sets the page's mean and takes it away from its rows.
void subtract_mean(FixedRows* rows, RowCodes* codes) {
  const size_t channels = rows->values.size() / kTokens;
  std::vector<int64_t> means(channels);
  int64_t largest = 0;
  for (size_t channel = 0; channel < channels; ++channel) {
    int64_t sum = 0;
    for (size_t token = 0; token < kTokens; ++token)
      sum += rows->values[token * channels + channel];
    means[channel] = rounded_shift(sum, 6);
    largest = std::max(largest, std::abs(means[channel]));
  }
  const int power = std::max(0, bits_of(largest) - 7);
  codes->mean_power = static_cast<int16_t>(rows->top - kUnit + power);
  for (size_t channel = 0; channel < channels; ++channel) {
    const int64_t mean = std::min<int64_t>(127, rounded_shift(means[channel], power));
    codes->mean.push_back(static_cast<int8_t>(mean));
    for (size_t token = 0; token < kTokens; ++token) {
      rows->values[token * channels + channel] -= mean * (int64_t{1} << power);
    }
  }
}

// A row's residual, scaled by 2^shift so that the transform fits 16 bits.
struct ScaledRow {
  int shift = 0;
  std::vector<int64_t> values;
};

std::optional<ScaledRow> scale_row(std::span<const int64_t> residual) {
  int64_t length = 0;
  for (const int64_t value : residual) length += std::abs(value);
  if (length == 0) return std::nullopt;
  ScaledRow row{.shift = kLengthBits - bits_of(length), .values = {}};
  for (const int64_t value : residual) {
    row.values.push_back(row.shift >= 0 ? value * (int64_t{1} << row.shift)
                                        : rounded_shift(value, -row.shift));
  }
  return row;
}

// Cells of a transformed row, each from −2^(B−1) to 2^(B−1) − 1.
std::vector<int64_t> quantise(std::span<const int64_t> z, const CodeForm& form) {
  int64_t sum = 0;
  for (const int64_t value : z) sum += std::abs(value);
  const int64_t cells =
      sum == 0 ? 0 : std::min(kMostCells, form.cells_per_z * static_cast<int64_t>(z.size()) / sum);
  const int64_t half = int64_t{1} << (form.planes - 1);
  std::vector<int64_t> result;
  for (const int64_t value : z) {
    result.push_back(std::clamp(floor_shift(value * cells, 16), -half, half - 1));
  }
  return result;
}

// floor(16 · log2) of what a cell's value has to be multiplied by to give z back; nothing for
// zeros.
std::optional<int> fit(std::span<const int64_t> z, std::span<const int64_t> cells) {
  int64_t energy = 0;
  int64_t product = 0;
  for (size_t channel = 0; channel < z.size(); ++channel) {
    const int64_t coarse = rounded_shift(z[channel], kCoarseBits);
    energy += coarse * coarse;
    product += coarse * (2 * cells[channel] + 1);
  }
  if (product == 0) return std::nullopt;
  const int64_t ratio = (energy << kFactorBits) / product;
  return log2_sixteenths(static_cast<uint64_t>(ratio)) + 16 * (kCoarseBits - kFactorBits);
}

}  // namespace

RowCodes encode_rows(std::span<const Number> rows, std::span<const int8_t> gains, int set,
                     const CodeForm& form) {
  RowCodes codes;
  const size_t channels = rows.size() / kTokens;
  FixedRows fixed = fix_rows(rows, gains);
  subtract_mean(&fixed, &codes);

  const int unit = fixed.top - kUnit - log2_last_block(static_cast<uint32_t>(channels));
  std::array<std::optional<int>, kTokens> sixteenths;
  std::optional<int> top;
  for (size_t token = 0; token < kTokens; ++token) {
    const auto residual = std::span(fixed.values).subspan(token * channels, channels);
    const ScaledRow row =
        scale_row(residual).value_or(ScaledRow{.values = std::vector<int64_t>(channels)});
    const std::vector<int64_t> z = transform(row.values, set);
    const std::vector<int64_t> cells = quantise(z, form);
    for (const int64_t cell : cells) {
      codes.cell.push_back(static_cast<uint8_t>(cell + (1 << (form.planes - 1))));
    }
    const std::optional<int> fitted = fit(z, cells);
    if (!fitted) continue;
    sixteenths[token] = *fitted + 16 * (unit - row.shift);
    top = std::max(top.value_or(*sixteenths[token]), *sixteenths[token]);
  }
  if (!top) return codes;
  codes.top = static_cast<int16_t>(*top + 1);
  for (size_t token = 0; token < kTokens; ++token) {
    if (!sixteenths[token]) continue;
    const int below = (*top - *sixteenths[token] + form.factor_step / 2) / form.factor_step;
    codes.factor[token] = static_cast<uint8_t>(std::max(0, kTopFactor - below));
  }
  return codes;
}

}  // namespace nearkv::model
