#include "opencl/packed_rows.hpp"

#include "nkv_abi.h"

namespace nearkv::opencl {

namespace {

constexpr model::TokenMask kAllTokens = ~model::TokenMask{0};

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

// `tokens` has a mask for each page of the list; null: all tokens.
PackedRows pack(Runtime& runtime, const model::ListedPages& pages, PageRun run,
                const Tensor& tensor, const model::TokenSet* tokens) {
  const std::uint8_t dtype = pages[run.first].page.header().dtype;
  const std::uint32_t row_bytes = nkv_row_bytes(tensor.form, dtype, tensor.channels);
  std::vector<std::byte> rows;
  std::vector<std::byte> exponents;
  std::vector<std::uint32_t> page_of_row;
  std::uint32_t packed_pages = 0;
  for (std::size_t page = run.first; page < run.end; ++page) {
    const model::TokenMask wanted = tokens == nullptr ? kAllTokens : (*tokens)[page];
    if (wanted == 0) continue;
    const auto of_page = pages[page].page.array(tensor.exponents);
    exponents.insert(exponents.end(), of_page.begin(), of_page.end());
    const auto stored = pages[page].page.array(tensor.rows);
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (!model::has_token(wanted, token)) continue;
      const auto row = stored.subspan(std::size_t{token} * row_bytes, row_bytes);
      rows.insert(rows.end(), row.begin(), row.end());
      page_of_row.push_back(packed_pages);
    }
    ++packed_pages;
  }
  return {.rows = runtime.upload<std::byte>(rows),
          .exponents = runtime.upload<std::byte>(exponents),
          .pages = runtime.upload<std::uint32_t>(page_of_row),
          .count = static_cast<cl_uint>(page_of_row.size()),
          .row_bytes = row_bytes,
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
  return pack(runtime, pages, run, keys_of(pages[run.first].page.header()), nullptr);
}

PackedRows pack_keys(Runtime& runtime, const model::ListedPages& pages, PageRun run,
                     const model::TokenSet& tokens) {
  return pack(runtime, pages, run, keys_of(pages[run.first].page.header()), &tokens);
}

PackedRows pack_values(Runtime& runtime, const model::ListedPages& pages, PageRun run) {
  return pack(runtime, pages, run, values_of(pages[run.first].page.header()), nullptr);
}

}  // namespace nearkv::opencl
