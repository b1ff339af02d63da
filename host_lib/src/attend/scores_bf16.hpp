// Dot products of bf16 queries with bf16 keys by the instruction that AVX-512 has for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "page/row_source.hpp"

namespace nearkv {

/// Tokens that bf16_scores() takes at a time.
inline constexpr std::size_t kBf16ScoreTokens = 16;

/// Rows that it takes have a multiple of this many channels.
inline constexpr std::size_t kBf16ScoreChannels = 64;

/// Whether this machine and build have bf16_scores for these keys.
[[nodiscard]] bool has_bf16_scores(const RowSource& keys);

/// Puts a query row into the order in which bf16_scores() decodes keys; dim as above.
void arrange_bf16_query(const std::uint16_t* row, std::size_t dim, std::uint16_t* arranged);

/// scores[row * PAGE_TOKENS + i] = factor * (query row . key of token first + i), in binary32.
/// query: [rows][dim], arranged. Tokens whose keys are not finite get any number.
void bf16_scores(const RowSource& keys, std::size_t first, const std::uint16_t* query,
                 std::size_t rows, float factor, float* scores);

}  // namespace nearkv
