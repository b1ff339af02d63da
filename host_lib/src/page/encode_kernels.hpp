// The inner loops of page building, over one tensor's 64 rows as binary32.
//
// All take rows [PAGE_TOKENS][dim], contiguous, with elements that are not finite or are subnormal
// already zero; dim is a multiple of 16. Section numbers refer to emulator/model/ARITHMETIC.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

/// bf16 rows `stride_bytes` apart as binary32, with elements that are not finite or are subnormal
/// zero. Returns the tokens that hold a NaN or an infinity.
std::uint64_t load_bf16(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                        float* rows);

/// Per channel: least, greatest, and largest magnitude.
void channel_ranges(const float* rows, std::size_t dim, float* lowest, float* highest,
                    float* magnitude);

/// Codes of 2.1 packed into the four search planes, each [PAGE_TOKENS][dim / 8] bytes.
/// step[c] > 0; base[c] is in codes (4 * the digest's).
void pack_planes(const float* rows, std::size_t dim, const float* step, const std::int32_t* base,
                 std::uint8_t* const planes[4]);

/// DELTA4 rows (2.2) of bf16 rows `stride_bytes` apart: sign-and-mantissa bytes, then nibbles.
/// exponents[c] is the stored exponent x. exceptions[t] is the number of elements of token t that
/// need an exception.
void pack_delta4(const std::uint8_t* source, std::size_t stride_bytes, std::size_t dim,
                 const std::uint8_t* exponents, std::uint8_t* out, std::uint16_t* exceptions);

/// Sums of 2.3: sum[c] over the tokens of the value truncated at 2^(exponent - 150), and the
/// numerator N.
void value_statistics(const float* rows, std::size_t stride, std::size_t dim, int exponent,
                      std::int32_t* sum, std::int64_t* numerator);

}  // namespace nearkv
