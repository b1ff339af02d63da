#include "opencl/packed_rows.hpp"

#include "nkv_abi.h"

namespace nearkv::opencl {

namespace {

constexpr std::size_t kMostPages = 256;  // 24 MiB of the widest rows and their scores.

PackedRows pack(Runtime& runtime, const model::ListedPages& pages, PageRun run, nkv_page_array rows,
                nkv_page_array exponents, std::uint8_t form, std::uint32_t channels) {
  std::vector<std::byte> row_bytes;
  std::vector<std::byte> exponent_bytes;
  for (std::size_t page = run.first; page < run.end; ++page) {
    const auto of_rows = pages[page].page.array(rows);
    const auto of_exponents = pages[page].page.array(exponents);
    row_bytes.insert(row_bytes.end(), of_rows.begin(), of_rows.end());
    exponent_bytes.insert(exponent_bytes.end(), of_exponents.begin(), of_exponents.end());
  }
  const std::uint8_t dtype = pages[run.first].page.header().dtype;
  return {.rows = runtime.upload<std::byte>(row_bytes),
          .exponents = runtime.upload<std::byte>(exponent_bytes),
          .row_bytes = nkv_row_bytes(form, dtype, channels),
          .channels = channels,
          .is_delta4 = form == NKV_ROW_FORM_DELTA4 ? 1 : 0,
          .dtype = dtype};
}

bool is_alike(const nkv_page_header& a, const nkv_page_header& b) {
  return a.k_form == b.k_form && a.v_form == b.v_form && a.dtype == b.dtype &&
         a.head_dim == b.head_dim && a.value_dim == b.value_dim;
}

}  // namespace

PageRun run_from(const model::ListedPages& pages, std::size_t first) {
  std::size_t end = first + 1;
  while (end < pages.size() && end - first < kMostPages &&
         is_alike(pages[first].page.header(), pages[end].page.header())) {
    ++end;
  }
  return {.first = first, .end = end};
}

PackedRows pack_keys(Runtime& runtime, const model::ListedPages& pages, PageRun run) {
  const nkv_page_header& header = pages[run.first].page.header();
  return pack(runtime, pages, run, NKV_PAGE_ARRAY_K_ROWS, NKV_PAGE_ARRAY_K_EXPONENTS, header.k_form,
              header.head_dim);
}

PackedRows pack_values(Runtime& runtime, const model::ListedPages& pages, PageRun run) {
  const nkv_page_header& header = pages[run.first].page.header();
  if (header.v_form == NKV_ROW_FORM_NONE) return pack_keys(runtime, pages, run);
  return pack(runtime, pages, run, NKV_PAGE_ARRAY_V_ROWS, NKV_PAGE_ARRAY_V_EXPONENTS, header.v_form,
              header.value_dim);
}

}  // namespace nearkv::opencl
