// The quantisation step of a channel: what a page's digest says of it (ARITHMETIC.md 2.1).
#pragma once

#include <cmath>
#include <cstdint>

namespace nearkv {

/// Codes 0..255 of a channel are cells of one step, m * 2^s, from 4 * base steps upward.
struct ChannelStep {
  std::int8_t base = 0;  ///< In units of CODE_BASE_STEP steps.
  std::uint8_t m = 8;    ///< 8..15.
  std::int16_t s = 0;    ///< Exponent.
  bool present = false;  ///< False: all of the channel's elements are zero.

  [[nodiscard]] double step() const { return std::ldexp(static_cast<double>(m), s); }
};

/// The smallest step that covers [lowest, highest]. Both finite.
[[nodiscard]] ChannelStep choose_step(float lowest, float highest);

/// The channel's entry in a page whose coarsest exponent is `page_exponent`; also adjusts `step` to
/// what the entry says, which differs when a channel is over 2^31 times finer than the coarsest.
[[nodiscard]] std::uint16_t digest_entry(int page_exponent, float lowest, ChannelStep* step);

/// The step that an entry stands for.
[[nodiscard]] ChannelStep step_of_entry(std::uint16_t entry, int page_exponent);

}  // namespace nearkv
