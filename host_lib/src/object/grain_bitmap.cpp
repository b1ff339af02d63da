#include "object/grain_bitmap.hpp"

#include <algorithm>
#include <bit>

namespace nearkv {
namespace {

/// Calls visit(word, mask) for the words that a range covers.
template <typename Words, typename Visit>
void for_each_word(Words words, std::uint32_t first, std::uint32_t grains, Visit visit) {
  while (grains > 0) {
    const std::uint32_t shift = first % kWordBits;
    const std::uint32_t here = std::min(grains, kWordBits - shift);
    visit(words[first / kWordBits], ~std::uint64_t{0} >> (kWordBits - here) << shift);
    first += here;
    grains -= here;
  }
}

}  // namespace

bool GrainBitmap::all(bool taken, std::uint32_t first, std::uint32_t grains) const {
  bool all = true;
  for_each_word(words_, first, grains, [&](std::uint64_t word, std::uint64_t mask) {
    all = all && (word & mask) == (taken ? mask : 0);
  });
  return all;
}

void GrainBitmap::set(bool taken, std::uint32_t first, std::uint32_t grains) {
  for_each_word(words_, first, grains, [&](std::uint64_t& word, std::uint64_t mask) {
    word = taken ? word | mask : word & ~mask;
  });
}

template <typename Visit>
void GrainBitmap::for_each_free_run(Visit visit) const {
  FreeRun run;
  for (std::uint32_t i = 0; i < words_.size(); ++i) {
    std::uint64_t word = words_[i];
    std::uint32_t at = 0;
    while (at < kWordBits) {
      const auto free =
          std::min(static_cast<std::uint32_t>(std::countr_zero(word)), kWordBits - at);
      if (free > 0 && run.grains == 0) run.first = i * kWordBits + at;
      run.grains += free;
      at += free;
      if (at == kWordBits) break;
      if (run.grains > 0) visit(run);
      run.grains = 0;
      word >>= free;
      const auto taken = static_cast<std::uint32_t>(std::countr_one(word));
      at += taken;
      if (at < kWordBits) word >>= taken;
    }
  }
  if (run.grains > 0) visit(run);
}

FreeRun GrainBitmap::longest() const {
  FreeRun longest;
  for_each_free_run([&](const FreeRun& run) {
    if (run.grains > longest.grains) longest = run;
  });
  return longest;
}

FreeRun GrainBitmap::fitting(std::uint32_t grains) const {
  FreeRun fitting;
  for_each_free_run([&](const FreeRun& run) {
    const bool shorter = fitting.grains == 0 || run.grains < fitting.grains;
    if (run.grains >= grains && shorter) fitting = run;
  });
  return fitting;
}

}  // namespace nearkv
