// Chains of blocks, as requests have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nearkv::bench {

/// Block hashes of one request, head first.
using Chain = std::vector<std::uint64_t>;

/// Requests that go on from the system prompt or from an earlier request, until there are enough
/// blocks.
std::vector<Chain> made_up_chains(std::size_t blocks, std::uint32_t shortest, std::uint32_t longest,
                                  std::uint64_t seed);

/// Those of a trace, for as many tenants as make enough blocks. Throws std::runtime_error.
std::vector<Chain> trace_chains(const std::string& path, std::size_t blocks);

}  // namespace nearkv::bench
