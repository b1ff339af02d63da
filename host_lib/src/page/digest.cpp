#include "page/digest.hpp"

#include <algorithm>

#include "nkv_abi.h"

namespace nearkv {
namespace {

constexpr int kLargestCode = 255;
constexpr int kLargestDelta = 31;

int cell(float value, double step) { return static_cast<int>(std::floor(value / step)); }

/// floor(cell / CODE_BASE_STEP).
int base_of(int lowest_cell) {
  return static_cast<int>(std::floor(static_cast<double>(lowest_cell) / NKV_CODE_BASE_STEP));
}

bool fits(float lowest, float highest, double step) {
  // Far too fine a step would overflow the cell number before it is compared.
  if (std::abs(lowest) > 1024 * step || std::abs(highest) > 1024 * step) return false;
  const int base = base_of(cell(lowest, step));
  return base >= -128 && base <= 127 &&
         cell(highest, step) - NKV_CODE_BASE_STEP * base <= kLargestCode;
}

}  // namespace

ChannelStep choose_step(float lowest, float highest) {
  ChannelStep result;
  if (lowest == 0.0F && highest == 0.0F) return result;
  result.present = true;
  // No smaller step can fit; rounding of this bound is covered by starting one step below it.
  const double bound = std::max((static_cast<double>(highest) - lowest) / 257.0,
                                std::abs(static_cast<double>(lowest)) / 513.0);
  int exponent = 0;
  const double fraction = std::frexp(bound, &exponent);  // [1/2, 1)
  int m = static_cast<int>(fraction * 16.0) - 1;
  int s = exponent - 4;
  if (m < 8) {
    m = 15;
    --s;
  }
  while (!fits(lowest, highest, std::ldexp(m, s))) {
    if (++m == 16) {
      m = 8;
      ++s;
    }
  }
  result.m = static_cast<std::uint8_t>(m);
  result.s = static_cast<std::int16_t>(s);
  result.base = static_cast<std::int8_t>(base_of(cell(lowest, result.step())));
  return result;
}

std::uint16_t digest_entry(int page_exponent, float lowest, ChannelStep* step) {
  int delta = page_exponent - step->s;
  if (!step->present || delta > kLargestDelta) {
    delta = kLargestDelta;
    step->m = 8;
    step->s = static_cast<std::int16_t>(page_exponent - delta);
    step->base = static_cast<std::int8_t>(base_of(cell(lowest, step->step())));
  }
  return static_cast<std::uint16_t>(static_cast<std::uint8_t>(step->base) | ((step->m - 8) << 8) |
                                    (delta << 11));
}

ChannelStep step_of_entry(std::uint16_t entry, int page_exponent) {
  ChannelStep step;
  step.present = true;
  step.base = static_cast<std::int8_t>(entry & 0xFF);
  step.m = static_cast<std::uint8_t>(8 + ((entry >> 8) & 7));
  step.s = static_cast<std::int16_t>(page_exponent - (entry >> 11));
  return step;
}

}  // namespace nearkv
