// Dense attention over one page: every visible token's key and value row is read.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/query.hpp"
#include "attend/softmax_state.hpp"
#include "page/page_view.hpp"

namespace nearkv {

/// Query rows ready for the dense kernel: scaled to base-2 logits, in kernel order.
struct DenseQuery {
  std::size_t rows = 0;
  std::size_t dim = 0;
  float soft_cap = 0;  ///< Base 2; 0: none.
  hwy::AlignedFreeUniquePtr<float[]> values;

  /// The rows as bf16, arranged for bf16_scores(), with what their scores are multiplied by to be
  /// base-2 logits. Empty where bf16 cannot hold the rows, or their products not be summed safely.
  std::vector<std::uint16_t> bf16;
  float bf16_factor = 0;
};

/// Buffers of one worker, kept between commands.
struct DenseScratch {
  std::size_t rows = 0;                       ///< Room in `scores`.
  hwy::AlignedFreeUniquePtr<float[]> tile;    ///< Decoded rows of a few tokens.
  hwy::AlignedFreeUniquePtr<float[]> scores;  ///< [rows][PAGE_TOKENS].

  void reserve(std::size_t wanted_rows);
};

/// Prepares rows for attend_page. `scale` and `soft_cap` are the command's, `key_exponent` the
/// list's.
[[nodiscard]] DenseQuery prepare_dense(const Query& query, float scale, float soft_cap,
                                       int key_exponent);

/// Adds the tokens of `visible` (bit t: token t) to `state`, whose dim is the value rows' and whose
/// channels are in kernel order. `next` is the page after this one, to be fetched ahead, or null.
/// Checksums are the caller's business.
void attend_page(const DenseQuery& query, const PageView& page, std::uint64_t visible,
                 const std::byte* next, DenseScratch* scratch, SoftmaxState* state);

/// position[c] = where channel c of a row of `dim` channels lies in kernel order on this machine.
[[nodiscard]] std::vector<std::uint16_t> kernel_order(std::size_t dim);

}  // namespace nearkv
