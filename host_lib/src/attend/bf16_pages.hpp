// Dense attention over pages of bf16 rows, by the kernel that an engine's blocks have too.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/query.hpp"
#include "attend/softmax_state.hpp"
#include "attend/span.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// A worker's room for the decoded rows of a page. Kept between commands.
class Bf16Tiles {
 public:
  [[nodiscard]] std::uint16_t* keys();
  [[nodiscard]] std::uint16_t* values() { return keys() + kRowsOfPage; }

 private:
  static constexpr std::size_t kRowsOfPage = std::size_t{NKV_PAGE_TOKENS} * NKV_MAX_HEAD_DIM;
  hwy::AlignedFreeUniquePtr<std::uint16_t[]> rows_;
};

/// The query rows of a command, where bf16 holds them without loss.
class Bf16Pages {
 public:
  /// `scale` and `soft_cap` are the command's, `key_exponent` the list's.
  Bf16Pages(const Query& query, float scale, float soft_cap, int key_exponent);

  /// Of rows [group][dim], for score() alone.
  Bf16Pages(std::span<const float> rows, std::size_t dim);

  /// Whether attend() can be called for a page.
  [[nodiscard]] bool takes(const PageView& page) const;

  /// Adds the tokens of `visible` (bit t: token t) to `state`, whose dim is the value rows'. `next`
  /// is the page after this one, to be fetched ahead, or null. Checksums are the caller's business.
  void attend(const PageView& page, std::uint64_t visible, const std::byte* next, Bf16Tiles* tiles,
              SpanScope* scope, SoftmaxState* state) const;

  /// Dot products of the rows with all keys of a page, scores[row * PAGE_TOKENS + t], aligned to 64
  /// bytes; false, and nothing is done, for a page that it cannot take. `next` as in attend().
  bool score(const PageView& page, const std::byte* next, Bf16Tiles* tiles, SpanScope* scope,
             float* scores) const;

  /// Brings the channels of what attend() has summed into kernel order.
  static void order_channels(SoftmaxState* state);

 private:
  std::size_t group_ = 0;
  std::size_t dim_ = 0;
  float factor_ = 0;
  float soft_cap_ = 0;
  std::vector<std::uint16_t> rows_;  ///< [group][dim]; empty: attend() takes no page.
};

}  // namespace nearkv
