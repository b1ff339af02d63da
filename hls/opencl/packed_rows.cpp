#include "opencl/packed_rows.hpp"

#include "nkv_abi.h"

namespace nearkv::opencl {

namespace {

// One of a page's tensors, and which of its arrays are its.
struct Tensor {
  nkv_page_array rows;
  nkv_page_array exponents;
  std::uint8_t form;
  std::uint32_t channels;
};

Tensor keys_of(const nkv_page_header& header) {
  return {.rows = NKV_PAGE_ARRAY_K_ROWS,
          .exponents = NKV_PAGE_ARRAY_K_EXPONENTS,
          .form = header.k_form,
          .channels = header.head_dim};
}

Tensor values_of(const nkv_page_header& header) {
  if (header.v_form == NKV_ROW_FORM_NONE) return keys_of(header);
  return {.rows = NKV_PAGE_ARRAY_V_ROWS,
          .exponents = NKV_PAGE_ARRAY_V_EXPONENTS,
          .form = header.v_form,
          .channels = header.value_dim};
}

PackedRows pack(Runtime& runtime, const model::ListedPages& pages, PageRun run,
                const Tensor& tensor) {
  const std::uint8_t dtype = pages[run.first].page.header().dtype;
  std::vector<std::byte> rows;
  std::vector<std::byte> exponents;
  for (std::size_t page = run.first; page < run.end; ++page) {
    const auto of_rows = pages[page].page.array(tensor.rows);
    rows.insert(rows.end(), of_rows.begin(), of_rows.end());
    const auto of_exponents = pages[page].page.array(tensor.exponents);
    exponents.insert(exponents.end(), of_exponents.begin(), of_exponents.end());
  }
  return {.rows = runtime.upload<std::byte>(rows),
          .exponents = runtime.upload<std::byte>(exponents),
          .tokens = run.size() * NKV_PAGE_TOKENS,
          .row_bytes = nkv_row_bytes(tensor.form, dtype, tensor.channels),
          .channels = tensor.channels,
          .is_delta4 = tensor.form == NKV_ROW_FORM_DELTA4 ? 1 : 0,
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
  return pack(runtime, pages, run, keys_of(pages[run.first].page.header()));
}

PackedRows pack_values(Runtime& runtime, const model::ListedPages& pages, PageRun run) {
  return pack(runtime, pages, run, values_of(pages[run.first].page.header()));
}

}  // namespace nearkv::opencl
