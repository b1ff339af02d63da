// Compiled for AVX2 with VPCLMULQDQ whatever the rest of the library is compiled for, and entered
// only where the processor has both.
#include "media/copy_fold.hpp"

#if defined(__VPCLMULQDQ__) && defined(__AVX2__)

#include <immintrin.h>

#include "media/copy_fold-inl.h"

namespace nearkv {
namespace {

/// 32 bytes: intrinsics, because Highway has this multiplication from AVX-512 on only.
struct Vector256 {
  using Register = __m256i;
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kRegisters = 8;

  static Register load(const std::byte* from) {
    __m256i data = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    // Stored and folded as it was read: the source may change before it could be read again.
    asm("" : "+x"(data));
    return data;
  }
  template <StoreKind kStores>
  static void store(Register data, std::byte* to) {
    if constexpr (kStores == StoreKind::kStream) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), data);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), data);
    }
  }
  static Register constants(FoldConstants by) {
    return _mm256_broadcastsi128_si256(narrow_constants(by));
  }
  static Register add_low(Register data, std::uint32_t state) {
    return _mm256_xor_si256(data, _mm256_set_epi64x(0, 0, 0, state));
  }
  static Register fold(Register sum, Register by, Register data) {
    const __m256i product = _mm256_xor_si256(_mm256_clmulepi64_epi128(sum, by, 0x00),
                                             _mm256_clmulepi64_epi128(sum, by, 0x11));
    return _mm256_xor_si256(product, data);
  }

  static __m128i narrow_constants(FoldConstants by) {
    return _mm_set_epi64x(static_cast<std::int64_t>(by.second_half),
                          static_cast<std::int64_t>(by.first_half));
  }
  static __m128i narrow_fold(__m128i sum, __m128i by, __m128i data) {
    const __m128i product =
        _mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11));
    return _mm_xor_si128(product, data);
  }
  static __m128i part(Register data, std::size_t which) {
    return which == 0 ? _mm256_castsi256_si128(data) : _mm256_extracti128_si256(data, 1);
  }
  static void narrow_store(__m128i data, unsigned char* to) {
    _mm_store_si128(reinterpret_cast<__m128i*>(to), data);
  }
};

std::uint32_t copy_fold_256_blocks(std::byte* to, const std::byte* from, std::size_t bytes,
                                   std::uint32_t state, StoreKind stores) {
  return stores == StoreKind::kStream
             ? copy_fold_blocks<Vector256, StoreKind::kStream>(to, from, bytes, state)
             : copy_fold_blocks<Vector256, StoreKind::kOrdinary>(to, from, bytes, state);
}

}  // namespace

CopyFold copy_fold_256() {
  const bool usable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
  return usable ? &copy_fold_256_blocks : nullptr;
}

}  // namespace nearkv

#else

namespace nearkv {
CopyFold copy_fold_256() { return nullptr; }
}  // namespace nearkv

#endif
