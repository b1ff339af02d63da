// Dense attention over one page, of any type and on any processor: every visible token's key and
// value row is read.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attend/bf16_pages.hpp"
#include "attend/query.hpp"
#include "attend/softmax_state.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// Query rows ready for the dense kernel, in kernel order; for attend_page() scaled to base-2
/// logits.
struct DenseQuery {
  std::size_t rows = 0;
  std::size_t dim = 0;
  float soft_cap = 0;  ///< Base 2; 0: none.
  hwy::AlignedFreeUniquePtr<float[]> values;
};

/// Buffers of one worker, kept between commands.
struct DenseScratch {
  std::size_t rows = 0;                       ///< Room in `scores`.
  hwy::AlignedFreeUniquePtr<float[]> tile;    ///< Decoded rows of a few tokens.
  hwy::AlignedFreeUniquePtr<float[]> scores;  ///< [rows][PAGE_TOKENS].
  Bf16Tiles bf16;

  void reserve(std::size_t wanted_rows);
};

/// Rows [rows][dim] as they are, for score_page().
[[nodiscard]] DenseQuery order_query(std::span<const float> values, std::size_t dim);

/// Prepares rows for attend_page. `scale` and `soft_cap` are the command's.
[[nodiscard]] DenseQuery prepare_dense(const Query& query, float scale, float soft_cap);

/// Adds the tokens of `visible` (bit t: token t) to `state`, whose dim is the value rows' and whose
/// channels are in kernel order. `next` is the page after this one, to be fetched ahead, or null.
/// Checksums are the caller's business.
void attend_page(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                 const std::byte* next, DenseScratch* scratch, SoftmaxState* state);

/// Dot products of the rows with all keys of a page: scratch->scores. `next` as in attend_page().
void score_page(const DenseQuery& query, const PageView& page, const std::byte* next,
                DenseScratch* scratch);

/// Bit t: scores[t], of PAGE_TOKENS scores that are aligned for vectors, is at least `bound`.
[[nodiscard]] std::uint64_t tokens_at_least(const float* scores, float bound);

/// position[c] = where channel c of a row of `dim` channels lies in kernel order on this machine.
[[nodiscard]] std::vector<std::uint16_t> kernel_order(std::size_t dim);

}  // namespace nearkv
