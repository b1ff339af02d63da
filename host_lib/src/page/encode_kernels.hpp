// The inner loops of page building, over one tensor's rows as binary32.
//
// All take rows [tokens][dim], contiguous, with elements that are not finite or are subnormal
// already zero; dim is a multiple of 16. Section numbers refer to emulator/model/ARITHMETIC.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

/// bf16 rows `stride_bytes` apart as binary32, with elements that are not finite or are subnormal
/// zero. Returns the tokens, of at most 64, that hold a NaN or an infinity.
std::uint64_t load_bf16(const std::uint8_t* source, std::size_t stride_bytes, std::size_t tokens,
                        std::size_t dim, float* rows);

/// Per channel: the largest magnitude.
void channel_magnitudes(const float* rows, std::size_t tokens, std::size_t dim, float* magnitude);

/// DELTA4 rows (2.2) of PAGE_TOKENS bf16 rows `stride_bytes` apart: sign-and-mantissa bytes, then
/// nibbles. exponents[c] is the stored exponent x. exceptions[t] is the number of elements of token
/// t that need an exception.
void pack_delta4(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                 const std::uint8_t* exponents, std::uint8_t* out, std::uint16_t* exceptions);

}  // namespace nearkv
