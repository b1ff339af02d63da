#include "media/checked_copy.hpp"

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "media/copy_fold.hpp"

namespace nearkv {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kLineBytes = 64;

std::uint32_t extend(std::uint32_t state, std::span<const std::byte> bytes) {
  // ISA-L takes a mutable pointer and only reads.
  auto* const data =
      const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ::crc32_iscsi(data, static_cast<int>(bytes.size()), state);
}

/// Bytes up to the first whole line of the destination, at most all.
std::size_t bytes_to_line(const std::byte* to, std::size_t bytes) {
  const std::size_t over = reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  return over == 0 ? 0 : std::min(bytes, kLineBytes - over);
}

void stream_lines(std::byte* __restrict to, const std::byte* __restrict from, std::size_t bytes) {
  const hn::FixedTag<std::uint8_t, 16> d;
  const auto* const source = reinterpret_cast<const std::uint8_t*>(from);
  auto* const target = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t at = 0; at < bytes; at += kLineBytes) {
    const auto a = hn::LoadU(d, source + at);
    const auto b = hn::LoadU(d, source + at + 16);
    const auto c = hn::LoadU(d, source + at + 32);
    const auto e = hn::LoadU(d, source + at + 48);
    hn::Stream(a, d, target + at);
    hn::Stream(b, d, target + at + 16);
    hn::Stream(c, d, target + at + 32);
    hn::Stream(e, d, target + at + 48);
  }
}

/// A run that copies pieces in order; what differs is how parts of lines and whole lines go.
struct Run {
  std::byte* to;
  std::span<const std::byte> from;

  std::span<const std::byte> take(std::size_t bytes, std::byte** target) {
    const std::span<const std::byte> taken = from.first(bytes);
    from = from.subspan(bytes);
    *target = to;
    to += bytes;
    return taken;
  }
};

constexpr std::size_t down_to(std::size_t bytes, std::size_t grain) {
  return bytes / grain * grain;
}

/// A part of one line, written back so that it does not linger in a cache.
void copy_part(std::byte* to, std::span<const std::byte> from, bool write_back) {
  if (from.empty()) return;
  std::memcpy(to, from.data(), from.size());
  if (write_back) hwy::FlushCacheline(to);
}

/// Reads every byte of `from` once: who shares it may change it meanwhile, and the checksum has to
/// be that of what was stored.
std::uint32_t stream_checked(std::byte* to, std::span<const std::byte> from, std::uint32_t crc,
                             bool write_back) {
  alignas(kLineBytes) std::array<std::byte, kFoldBlockBytes> held;
  std::uint32_t state = ~crc;
  Run run{to, from};
  std::byte* target = nullptr;
  const auto take_held = [&](std::size_t bytes) {
    const std::span<const std::byte> piece = run.take(bytes, &target);
    std::ranges::copy(piece, held.begin());
    // Not from the source again, however well the compiler knows that they are the same.
    asm volatile("" : : "r"(held.data()) : "memory");
    const std::span<const std::byte> once = std::span(held).first(piece.size());
    state = extend(state, once);
    return once;
  };
  const auto head = take_held(bytes_to_line(to, from.size()));
  copy_part(target, head, write_back);
  const auto blocks = run.take(down_to(run.from.size(), kFoldBlockBytes), &target);
  if (!blocks.empty()) {
    state = copy_fold()(target, blocks.data(), blocks.size(), state, StoreKind::kStream);
  }
  const auto lines = take_held(down_to(run.from.size(), kLineBytes));
  stream_lines(target, lines.data(), lines.size());
  const auto rest = take_held(run.from.size());
  copy_part(target, rest, write_back);
  return ~state;
}

void stream_plain(std::byte* to, std::span<const std::byte> from, bool write_back) {
  Run run{to, from};
  std::byte* target = nullptr;
  auto piece = run.take(bytes_to_line(to, from.size()), &target);
  copy_part(target, piece, write_back);
  piece = run.take(down_to(run.from.size(), kLineBytes), &target);
  stream_lines(target, piece.data(), piece.size());
  piece = run.take(run.from.size(), &target);
  copy_part(target, piece, write_back);
}

std::uint32_t copy_checked(std::byte* to, std::span<const std::byte> from, std::uint32_t crc) {
  std::uint32_t state = ~crc;
  const std::size_t blocks = down_to(from.size(), kFoldBlockBytes);
  if (blocks != 0) state = copy_fold()(to, from.data(), blocks, state, StoreKind::kOrdinary);
  const std::span<const std::byte> rest = from.subspan(blocks);
  state = extend(state, rest);
  if (!rest.empty()) std::memcpy(to + blocks, rest.data(), rest.size());
  return ~state;
}

}  // namespace

std::uint32_t copy_in(std::span<std::byte> to_pool, std::span<const std::byte> from,
                      std::uint32_t crc) {
  return stream_checked(to_pool.data(), from, crc, kCopyInReachesMemory);
}

void copy_in(std::span<std::byte> to_pool, std::span<const std::byte> from) {
  stream_plain(to_pool.data(), from, kCopyInReachesMemory);
}

std::uint32_t gather_in(std::span<std::byte> to_pool, SourceCursor* from, std::uint32_t crc) {
  alignas(kLineBytes) std::array<std::byte, kLineBytes> line;
  to_pool = to_pool.first(std::min(to_pool.size(), from->remaining_bytes()));
  while (!to_pool.empty()) {
    const std::size_t part = bytes_to_line(to_pool.data(), to_pool.size());
    const std::size_t here = std::min(from->contiguous_bytes(), to_pool.size());
    std::span<const std::byte> piece;
    if (here == to_pool.size()) {
      piece = from->next(here);
    } else if (const std::size_t lines = down_to(here - std::min(here, part), kLineBytes);
               part + lines != 0 && here >= part) {
      piece = from->next(part + lines);
    } else {
      const std::size_t wanted = part != 0 ? part : std::min(kLineBytes, to_pool.size());
      for (std::size_t held = 0; held < wanted;) {
        const std::span<const std::byte> next = from->next(wanted - held);
        std::copy(next.begin(), next.end(), line.data() + held);
        held += next.size();
      }
      piece = std::span(line).first(wanted);
    }
    crc = copy_in(to_pool, piece, crc);
    to_pool = to_pool.subspan(piece.size());
  }
  return crc;
}

void copy_fence() { hwy::FlushStream(); }

std::uint32_t copy_out(std::span<std::byte> to, std::span<const std::byte> from_pool,
                       std::uint32_t crc) {
  if (from_pool.size() < kStreamOutBytes) return copy_checked(to.data(), from_pool, crc);
  crc = stream_checked(to.data(), from_pool, crc, false);
  copy_fence();
  return crc;
}

void copy_out(std::span<std::byte> to, std::span<const std::byte> from_pool) {
  if (from_pool.empty()) return;
  if (from_pool.size() < kStreamOutBytes) {
    std::memcpy(to.data(), from_pool.data(), from_pool.size());
    return;
  }
  stream_plain(to.data(), from_pool, false);
  copy_fence();
}

std::uint32_t scatter_out(TargetCursor* to, std::span<const std::byte> from_pool,
                          std::uint32_t crc) {
  from_pool = from_pool.first(std::min(from_pool.size(), to->remaining_bytes()));
  while (!from_pool.empty()) {
    const std::span<std::byte> piece = to->next(from_pool.size());
    crc = copy_out(piece, from_pool.first(piece.size()), crc);
    from_pool = from_pool.subspan(piece.size());
  }
  return crc;
}

}  // namespace nearkv
