// Rows of listed pages, one after the other, as kernels take them.
#ifndef NEARKV_OPENCL_PACKED_ROWS_HPP_
#define NEARKV_OPENCL_PACKED_ROWS_HPP_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "opencl/runtime.hpp"
#include "page_list.hpp"

namespace nearkv::opencl {

/// One tensor of some pages on the device. Pages of a list may differ in form and element type;
/// those of a run do not.
struct PackedRows {
  cl::Buffer rows;
  cl::Buffer exponents;  ///< K_EXPONENTS or V_EXPONENTS, page after page.
  std::size_t tokens;    ///< Of whole pages; each has a row.
  cl_uint row_bytes;
  cl_uint channels;
  cl_int is_delta4;
  cl_int dtype;
};

/// Pages [first, end) of a list.
struct PageRun {
  std::size_t first;
  std::size_t end;

  [[nodiscard]] std::size_t size() const { return end - first; }
};

/// Pages that are worked on at once, at most: 24 MiB of the widest rows and their scores.
inline constexpr std::size_t kMostPages = 256;

/// The longest run of pages from `first` on that are stored alike, and small enough to be worked on
/// at once.
PageRun run_from(const model::ListedPages& pages, std::size_t first);

/// Key rows of all tokens.
PackedRows pack_keys(Runtime& runtime, const model::ListedPages& pages, PageRun run);

/// Value rows of all tokens, or with v_form NONE the key rows whose leading channels they are.
PackedRows pack_values(Runtime& runtime, const model::ListedPages& pages, PageRun run);

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_PACKED_ROWS_HPP_
