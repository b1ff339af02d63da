// The inner loops of checked copies: bytes move and their CRC32C is folded in the same registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nearkv {

/// How bytes reach their destination.
enum class StoreKind : std::uint8_t {
  kOrdinary,  ///< Through the caches; any alignment.
  kStream,    ///< Past the caches, weakly ordered; the destination is 64-byte aligned.
};

/// What the loops take at a time.
inline constexpr std::size_t kFoldBlockBytes = 256;

/// Copies `bytes`, a multiple of kFoldBlockBytes and not 0, and returns the CRC32C register after
/// them, `state` being the register before them (no inversions). The ranges do not overlap. Thread
/// safe.
using CopyFold = std::uint32_t (*)(std::byte* to, const std::byte* from, std::size_t bytes,
                                   std::uint32_t state, StoreKind stores);

/// With 128-bit vectors, on every processor.
std::uint32_t copy_fold_128(std::byte* to, const std::byte* from, std::size_t bytes,
                            std::uint32_t state, StoreKind stores);

/// With 256-bit vectors; nullptr where this build or this processor lacks VPCLMULQDQ.
CopyFold copy_fold_256();

/// The fastest that this processor has.
CopyFold copy_fold();

}  // namespace nearkv
