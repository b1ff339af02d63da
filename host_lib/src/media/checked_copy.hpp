// Copies between a pool and host memory, with the CRC32C of the bytes in the same pass.
//
// Every checksum here is that of page/checksum.hpp and can be continued: `crc` is the CRC32C of the
// bytes before (0 if there are none), the result that of those and these together.
//
// All functions are thread safe on distinct destinations, allocate nothing and cannot fail. Sizes
// and alignments are arbitrary; ranges do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/segments.hpp"

namespace nearkv {

/// Whether copy_in() puts bytes on their way to memory (x86), or leaves them in caches, to be
/// written back by the caller (elsewhere).
#if defined(__x86_64__)
inline constexpr bool kCopyInReachesMemory = true;
#else
inline constexpr bool kCopyInReachesMemory = false;
#endif

/// From this size on copy_out() stores past the caches, at 1.2 to 1.8 times memcpy's rate. Below
/// it, whoever asked finds the bytes in a second-level cache.
inline constexpr std::size_t kStreamOutBytes = std::size_t{256} << 10;

/// Copies all of `from` to the front of `to_pool`, which is at least as large. No line is read
/// before it is written, and with kCopyInReachesMemory no line needs a flush after it; the caller
/// orders what follows by copy_fence(), once for any number of copies.
std::uint32_t copy_in(std::span<std::byte> to_pool, std::span<const std::byte> from,
                      std::uint32_t crc);

/// The same without a checksum.
void copy_in(std::span<std::byte> to_pool, std::span<const std::byte> from);

/// Fills `to_pool` from the cursor, which holds at least as much; lines that two segments share are
/// put together first and stored once.
std::uint32_t gather_in(std::span<std::byte> to_pool, SourceCursor* from, std::uint32_t crc);

/// Orders copy_in() before every later store.
void copy_fence();

/// Copies all of `from_pool` to the front of `to`, which is at least as large; ordered before every
/// later store.
std::uint32_t copy_out(std::span<std::byte> to, std::span<const std::byte> from_pool,
                       std::uint32_t crc);

/// The same without a checksum.
void copy_out(std::span<std::byte> to, std::span<const std::byte> from_pool);

/// Copies all of `from_pool` to the cursor, which has at least as much room.
std::uint32_t scatter_out(TargetCursor* to, std::span<const std::byte> from_pool,
                          std::uint32_t crc);

}  // namespace nearkv
