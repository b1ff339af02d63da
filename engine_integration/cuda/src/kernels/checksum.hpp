// CRC32C of an array that a block writes, by its threads together.
#pragma once

#include "numbers.hpp"

namespace nearkv::cuda {

/// Polynomials over two elements modulo Castagnoli's, the highest power in the lowest bit.
inline constexpr std::uint32_t kPolynomial = 0x82F63B78U;  ///< x^32.
inline constexpr std::uint32_t kOne = 0x80000000U;

NKV_BOTH constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (unsigned power = 0; power < 32; ++power) {
    product ^= (a << power & kOne) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1U) != 0 ? kPolynomial : 0);
  }
  return product;
}

/// What checksums are computed with. A kernel has a copy in its shared memory.
struct ChecksumTables {
  /// Byte i of a word, of each value, times x^(32 * kThreads).
  std::uint32_t ahead[4][256] = {};
  /// x^(32 i).
  std::uint32_t power[kThreads + 1] = {};

  constexpr ChecksumTables() {
    power[0] = kOne;
    for (unsigned i = 0; i < kThreads; ++i) power[i + 1] = multiply(power[i], kPolynomial);
    for (unsigned byte = 0; byte < 4; ++byte) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        const std::uint32_t one = multiply(1U << (8 * byte + bit), power[kThreads]);
        for (unsigned below = 0; below < 1U << bit; ++below) {
          ahead[byte][below | 1U << bit] = ahead[byte][below] ^ one;
        }
      }
    }
  }
};

#if defined(__CUDACC__)
__device__ constexpr ChecksumTables kChecksumTables;
#else
inline constexpr ChecksumTables kChecksumTables;
#endif

/// Copies the tables to a block's shared memory; good after its next barrier.
template <typename Block>
NKV_KERNEL void load_tables(Block& block, ChecksumTables* tables) {
  constexpr unsigned kWords = sizeof(ChecksumTables) / sizeof(std::uint32_t);
  const std::uint32_t* const from = &kChecksumTables.ahead[0][0];
  auto* const to = reinterpret_cast<std::byte*>(tables);
  for (unsigned i = block.thread(); i < kWords; i += kThreads) {
    memcpy(to + sizeof(std::uint32_t) * i, from + i, sizeof(std::uint32_t));
  }
}

/// A thread's part in the checksum of an array of 32-bit words, of which thread t takes the words
/// t, t + kThreads, and so on. All threads' parts XORed are the checksum but for its final
/// inversion.
class ChecksumPart {
 public:
  NKV_KERNEL void add(const ChecksumTables& tables, std::uint32_t index, std::uint32_t word) {
    const std::uint32_t ahead = tables.ahead[0][part_ & 0xFFU] ^
                                tables.ahead[1][part_ >> 8 & 0xFFU] ^
                                tables.ahead[2][part_ >> 16 & 0xFFU] ^ tables.ahead[3][part_ >> 24];
    part_ = ahead ^ (index == 0 ? ~word : word);
    last_ = index;
  }

  /// Of an array of so many words.
  [[nodiscard]] NKV_KERNEL std::uint32_t of(const ChecksumTables& tables,
                                            std::uint32_t words) const {
    return part_ == 0 ? 0 : multiply(part_, tables.power[words - last_]);
  }

 private:
  std::uint32_t part_ = 0;
  std::uint32_t last_ = 0;
};

}  // namespace nearkv::cuda
