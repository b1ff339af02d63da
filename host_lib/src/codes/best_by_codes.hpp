// The tokens that score best by codes (section 14.1 of ARITHMETIC.md).
#pragma once

#include <cstdint>
#include <vector>

#include "codes/code_state.hpp"

namespace nearkv {

/// Masks by listed page: the union over rows of the best `count` tokens and those that share the
/// last one's bin; all visible tokens if they are at most `count`.
void best_by_codes(const CodeState& state, std::uint64_t count, std::vector<std::uint64_t>* tokens);

}  // namespace nearkv
