#include "tables.hpp"

#include <cmath>
#include <cstddef>

namespace nearkv::model {

namespace {

// long double leaves at least 30 bits behind the binary point of every entry. That no entry comes
// within its error of a half, so that this rounds correctly, is a test.
template <size_t N, typename Function>
std::array<int64_t, N> tabulate(Function function) {
  std::array<int64_t, N> table;
  for (size_t i = 0; i < N; ++i) {
    table[i] = std::llround(function(static_cast<long double>(i)));
  }
  return table;
}

}  // namespace

const std::array<int64_t, 65>& exp2_table() {
  static const auto table =
      tabulate<65>([](long double i) { return std::ldexp(std::exp2(i / 64), 17); });
  return table;
}

const std::array<int64_t, 129>& log2_table() {
  static const auto table =
      tabulate<129>([](long double i) { return std::ldexp(std::log2(1 + i / 128), 24); });
  return table;
}

const std::array<int64_t, 1025>& tanh_table() {
  static const auto table =
      tabulate<1025>([](long double i) { return std::ldexp(std::tanh(i / 128), 24); });
  return table;
}

}  // namespace nearkv::model
