// Commands of every kind, most of them valid.
#pragma once

#include <cstdint>
#include <span>

#include "expected_verdict.hpp"
#include "support/seed.hpp"

namespace nearkv::rtl_test {

/// The window that their ranges lie in, or a few of them beyond.
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;

using AnyCommand = Bytes (*)(test::Random& random);

/// One of each kind of command, but for those that move pages.
std::span<const AnyCommand> command_kinds();

/// Of any of these kinds.
Bytes any_command(test::Random& random);

/// At which a range of up to some MiB may lie, or end beyond the window, or wrap around; in whole
/// `unit`s of bytes.
std::uint64_t any_address(test::Random& random, std::uint64_t unit);

}  // namespace nearkv::rtl_test
