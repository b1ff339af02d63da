// Pages as another machine hands them over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nearkv/pool.hpp"

namespace nearkv::test {

using Pages = std::vector<std::vector<std::byte>>;

/// The pages that a pool with these options, on a `cpu:` device of its own, makes of rows that go
/// behind the first `first_token` tokens of a layer: head by head. None, and a failed test, if it
/// cannot.
Pages finished_pages(const Pool::Options& options, std::uint64_t sequence, std::uint16_t layer,
                     std::uint32_t first_token, const HostRows& keys, const HostRows& values,
                     std::uint32_t tokens);

/// As Pool::append_pages takes them.
std::vector<std::span<const std::byte>> spans_of(const Pages& pages);

}  // namespace nearkv::test
