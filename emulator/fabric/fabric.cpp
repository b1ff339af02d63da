#include "fabric/fabric.hpp"

#include <algorithm>

namespace nearkv::fabric {
namespace {

/// One access in so many is preceded by something that the cache does by itself.
constexpr std::uint32_t kUnrest = 6;

}  // namespace

HostCache::HostCache(Fabric* fabric, std::uint64_t seed)
    : fabric_(*fabric),
      random_(static_cast<std::uint32_t>(seed ^ (seed >> 32))),
      lines_(fabric->bytes().size() / kLineBytes) {}

bool HostCache::chance(std::uint32_t one_in) { return random_() % one_in == 0; }

std::uint64_t HostCache::pick(std::uint64_t count) { return random_() % count; }

void HostCache::fetch(std::uint64_t line) {
  std::ranges::copy(fabric_.bytes().subspan(line * kLineBytes, kLineBytes),
                    lines_[line].bytes.begin());
  lines_[line].is_present = true;
}

void HostCache::write_back(std::uint64_t line) {
  if (!lines_[line].is_dirty) return;
  std::ranges::copy(lines_[line].bytes,
                    fabric_.bytes().begin() + static_cast<std::ptrdiff_t>(line * kLineBytes));
  lines_[line].is_dirty = false;
}

void HostCache::write_some_words_back(std::uint64_t line) {
  if (!lines_[line].is_dirty) return;
  for (std::uint64_t word = 0; word < kLineBytes; word += kWordBytes) {
    if (chance(2)) continue;
    std::copy_n(lines_[line].bytes.begin() + static_cast<std::ptrdiff_t>(word), kWordBytes,
                fabric_.bytes().begin() + static_cast<std::ptrdiff_t>(line * kLineBytes + word));
  }
}

void HostCache::drop(std::uint64_t line) {
  write_back(line);
  lines_[line].is_present = false;
}

void HostCache::finish(std::uint64_t line) {
  const Pending what = lines_[line].pending;
  lines_[line].pending = Pending::kNothing;
  if (what == Pending::kWriteBack) write_back(line);
  if (what == Pending::kDrop) drop(line);
}

void HostCache::begin(std::uint64_t line, Pending what) {
  Line& state = lines_[line];
  if (!state.is_present) return;
  if (state.pending == Pending::kNothing) pending_.push_back(line);
  state.pending = std::max(state.pending, what);
}

void HostCache::disturb(std::uint64_t line) {
  const Line& state = lines_[line];
  if (!state.is_present) {
    fetch(line);
  } else if (state.pending != Pending::kNothing) {
    finish(line);
  } else if (state.is_dirty && chance(2)) {
    write_some_words_back(line);
  } else if (state.is_dirty && chance(2)) {
    write_back(line);
  } else {
    drop(line);
  }
}

void HostCache::stir() {
  if (is_calm_ || !chance(kUnrest)) return;
  if (chance(4)) {
    disturb(pick(lines_.size()));
  } else {
    // A prefetcher runs ahead of what was touched.
    const std::uint64_t line = recent_[pick(recent_.size())] + (chance(3) ? 1 : 0);
    disturb(std::min<std::uint64_t>(line, lines_.size() - 1));
  }
}

HostCache::Line& HostCache::touch(std::uint64_t line) {
  stir();
  recent_[next_recent_++ % recent_.size()] = line;
  if (!lines_[line].is_present) fetch(line);
  return lines_[line];
}

void HostCache::load(std::uint64_t at, std::span<std::byte> bytes) {
  const Line& line = touch(at / kLineBytes);
  std::copy_n(line.bytes.begin() + static_cast<std::ptrdiff_t>(at % kLineBytes), bytes.size(),
              bytes.begin());
}

void HostCache::store(std::uint64_t at, std::span<const std::byte> bytes) {
  Line& line = touch(at / kLineBytes);
  std::ranges::copy(bytes, line.bytes.begin() + static_cast<std::ptrdiff_t>(at % kLineBytes));
  line.is_dirty = true;
}

void HostCache::flush(std::uint64_t at, std::uint64_t bytes) {
  stir();
  for (std::uint64_t line = at / kLineBytes; line * kLineBytes < at + bytes; ++line) {
    if (lines_[line].is_dirty) begin(line, Pending::kWriteBack);
  }
}

void HostCache::invalidate(std::uint64_t at, std::uint64_t bytes) {
  stir();
  for (std::uint64_t line = at / kLineBytes; line * kLineBytes < at + bytes; ++line) {
    begin(line, Pending::kDrop);
  }
}

void HostCache::fence() {
  stir();
  for (const std::uint64_t line : pending_) finish(line);
  pending_.clear();
}

void HostCache::lose_power() {
  for (std::uint64_t line = 0; line < lines_.size(); ++line) {
    if (chance(3)) write_back(line);
    if (chance(3)) write_some_words_back(line);
    lines_[line] = {};
  }
  pending_.clear();
}

}  // namespace nearkv::fabric
