// Bytes of the span after the one that is computed on, asked for a few at a time.
//
// Only for span_avx512.cpp and span_amx.cpp, which are compiled for AVX-512: what is defined here
// is in no other file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "attend/span.hpp"

namespace nearkv::bf16 {

using Bf16 = std::uint16_t;

/// Rows of some elements each, in memory.
struct Region {
  const Bf16* first = nullptr;  ///< Null: there is none.
  std::size_t rows = 0;
  std::size_t elements = 0;  ///< Of a row.
  std::size_t stride = 0;    ///< Elements from one row to the next one.
};

/// The cache that is fetched into. On a Zen 4 the first one waits for fewer lines at a time than
/// memory's latency asks for, which halved the speed there; tiles are loaded faster from it.
enum class Level : std::uint8_t { kFirst, kSecond };

/// Fetches a span's keys, then its values, in as many steps as computing on another span has. A
/// core waits for a dozen lines at a time; what is asked for in a burst makes all else wait behind
/// it, and in the pauses between bursts memory has nothing to do.
class Ahead {
 public:
  Ahead(const Region& keys, const Region& values, Level level)
      : level_(level),
        here_(joined(keys.first != nullptr ? keys : values)),
        after_(joined(keys.first != nullptr ? values : Region{})),
        left_(lines(here_) + lines(after_)) {
    begin_region();
  }

  /// Lines that step() has not asked for.
  [[nodiscard]] std::size_t left() const { return left_; }

  /// The next spread() is of `lines`.
  void take(std::size_t lines) { taken_ = lines; }
  [[nodiscard]] std::size_t taken() const { return taken_; }
  /// Spreads what was taken over the next `steps` calls of step().
  void spread(std::size_t steps) { at_once_ = (taken_ + steps - 1) / steps; }
  void step() {
    for (std::size_t line = 0; line < at_once_; ++line) fetch_line();
  }
  void finish() {
    while (at_ != nullptr) fetch_line();
  }

 private:
  static constexpr std::size_t kLine = NKV_BURST_BYTES / sizeof(Bf16);

  static Region joined(const Region& region) {
    if (region.elements != region.stride) return region;
    return {region.first, 1, region.rows * region.elements, 0};
  }
  static std::size_t lines(const Region& region) {
    return region.first != nullptr ? region.rows * ((region.elements + kLine - 1) / kLine) : 0;
  }
  void begin_region() {
    at_ = here_.first;
    row_end_ = at_ + here_.elements;
  }
  void fetch_line() {
    if (at_ == nullptr) return;
    const auto* const line = reinterpret_cast<const char*>(at_);
    if (level_ == Level::kFirst) {
      _mm_prefetch(line, _MM_HINT_T0);
    } else {
      _mm_prefetch(line, _MM_HINT_T1);
    }
    --left_;
    at_ += kLine;
    if (at_ >= row_end_) begin_row();
  }
  void begin_row() {
    if (--here_.rows != 0) {
      here_.first += here_.stride;
    } else {
      here_ = after_;
      after_ = {};
    }
    begin_region();
  }

  Level level_;
  Region here_;
  Region after_;
  const Bf16* at_ = nullptr;  ///< The line to be fetched next; null: none is left.
  const Bf16* row_end_ = nullptr;
  std::size_t left_;
  std::size_t taken_ = 0;
  std::size_t at_once_ = 0;
};

}  // namespace nearkv::bf16
