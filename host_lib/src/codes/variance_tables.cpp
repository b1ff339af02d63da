#include "codes/variance_tables.hpp"

#include <cmath>
#include <numbers>

#include "codes/code_form.hpp"

namespace nearkv {
namespace {

long double power_of(int sixteenths) {
  return std::exp2(static_cast<long double>(sixteenths) / 16);
}

/// log2(e^v - 1), which for large v would overflow.
long double excess_octaves(long double v) {
  return v > 40 ? v * std::numbers::log2e_v<long double> : std::log2(std::expm1(v));
}

long double octaves_of(int variance) {
  return power_of(variance) * std::numbers::log2e_v<long double>;
}

}  // namespace

std::int64_t octaves_fixed(int sixteenths, int bits) {
  const Octaves octave = octaves(sixteenths);
  const int power = octave.power + bits;
  return power >= 0 ? std::int64_t{octave.mantissa} << power
                    : std::int64_t{octave.mantissa} >> std::min(-power, 63);
}

const VarianceTables& variance_tables() {
  static const VarianceTables tables{
      .half = VarianceTable<std::int16_t>(
          [](int variance) { return std::llround(64 * octaves_of(variance)); }),
      .key = VarianceTable<std::int16_t>([](int variance) {
        return std::llround(16 * (octaves_of(variance) + excess_octaves(power_of(variance))));
      }),
      .value = VarianceTable<std::int16_t>(
          [](int variance) { return std::llround(16 * octaves_of(variance)); }),
      .excess = VarianceTable<std::int16_t>(
          [](int variance) { return std::llround(16 * excess_octaves(power_of(variance))); }),
      .noise = VarianceTable<std::int32_t>(
          [](int variance) { return octaves_fixed(variance + kVarianceUnit, 0); }),
      .part = StridedTable<std::int16_t, 4, -160, 160>([](int distance) {
        return std::min<long long>(32767, std::llround(32768 / (1 + power_of(distance))));
      })};
  return tables;
}

const DrawTables& draw_tables() {
  static const DrawTables tables = [] {
    const VarianceTables& numbers = variance_tables();
    return DrawTables{FactorTable(numbers.half), FactorTable(numbers.part),
                      FactorTable(numbers.noise)};
  }();
  return tables;
}

const ErrorTables& error_tables() {
  static const ErrorTables tables{FactorTable(variance_tables().key),
                                  FactorTable(variance_tables().value)};
  return tables;
}

const std::array<std::uint16_t, 128>& weight_mantissas() {
  static const auto table = [] {
    std::array<std::uint16_t, 128> entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i] = static_cast<std::uint16_t>(
          std::llround(32768 * std::exp2(static_cast<long double>(i) / 128)));
    }
    return entries;
  }();
  return table;
}

const std::array<std::int8_t, 128>& log_sum_excess() {
  static const auto table = [] {
    std::array<std::int8_t, 128> entries{};
    for (std::size_t i = 0; i < 96; ++i) {
      const long double smaller = std::exp2(-static_cast<long double>(i) / 16);
      entries[i] = static_cast<std::int8_t>(std::lround(16 * std::log2(1 + smaller)));
    }
    return entries;
  }();
  return table;
}

}  // namespace nearkv
