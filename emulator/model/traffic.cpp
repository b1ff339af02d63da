#include "traffic.hpp"

#include <algorithm>
#include <numeric>

namespace nearkv::model {

namespace {

constexpr uint64_t kHeaderBursts = NKV_PAGE_HEADER_BYTES / NKV_BURST_BYTES;

uint64_t chosen_row_bursts(const Page& page, TokenMask tokens, nkv_page_array exponents,
                           uint64_t row_bytes) {
  return tokens == 0 ? 0 : array_bursts(page, exponents) + row_bursts(tokens, row_bytes);
}

}  // namespace

uint64_t array_bursts(const Page& page, nkv_page_array array) {
  return burst_aligned(page.layout().bytes[array]) / NKV_BURST_BYTES;
}

uint64_t row_bursts(TokenMask rows, uint64_t row_bytes) {
  uint64_t bursts = 0;
  uint64_t next = 0;  // First burst that has not been counted.
  for (uint32_t row = 0; row < NKV_PAGE_TOKENS; ++row) {
    if (!has_token(rows, row) || row_bytes == 0) continue;
    const uint64_t first = std::max(next, row * row_bytes / NKV_BURST_BYTES);
    const uint64_t end = burst_aligned((row + 1) * row_bytes) / NKV_BURST_BYTES;
    bursts += end - first;
    next = end;
  }
  return bursts;
}

uint64_t dense_bursts(const ListedPages& pages) {
  uint64_t bursts = 0;
  for (const ListedPage& listed : pages) {
    bursts += kHeaderBursts + array_bursts(listed.page, NKV_PAGE_ARRAY_K_EXPONENTS) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_K_ROWS) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_V_EXPONENTS) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_V_ROWS);
  }
  return bursts;
}

uint64_t full_scan_bursts(const ListedPages& pages) {
  uint64_t bursts = 0;
  for (const ListedPage& listed : pages) {
    bursts += kHeaderBursts + array_bursts(listed.page, NKV_PAGE_ARRAY_K_EXPONENTS) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_K_ROWS) +
              array_bursts(listed.page, NKV_PAGE_ARRAY_KEY_SCALES);
  }
  return bursts;
}

uint64_t key_row_bursts(const ListedPages& pages, const TokenSet& tokens) {
  uint64_t bursts = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    const nkv_page_header& header = pages[i].page.header();
    bursts += chosen_row_bursts(pages[i].page, tokens[i], NKV_PAGE_ARRAY_K_EXPONENTS,
                                nkv_row_bytes(header.k_form, header.dtype, header.head_dim));
  }
  return bursts;
}

uint64_t value_row_bursts(const ListedPages& pages, const TokenSet& tokens) {
  uint64_t bursts = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    const nkv_page_header& header = pages[i].page.header();
    bursts += chosen_row_bursts(pages[i].page, tokens[i], NKV_PAGE_ARRAY_V_EXPONENTS,
                                nkv_row_bytes(header.v_form, header.dtype, header.value_dim));
  }
  return bursts;
}

uint32_t granule_tokens(uint32_t head_dim) {
  return NKV_BURST_BYTES / std::gcd(static_cast<uint32_t>(NKV_BURST_BYTES), head_dim / 8);
}

}  // namespace nearkv::model
