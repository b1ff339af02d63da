#include "page.hpp"

#include <cstddef>
#include <cstring>

#include "crc32c.hpp"

namespace nearkv::model {

namespace {

constexpr size_t kHotBytes = NKV_BURST_BYTES;
constexpr size_t kHotCovered = offsetof(nkv_page_header, crc_hot);
constexpr size_t kColdCovered = offsetof(nkv_page_header, crc_cold) - kHotBytes;

std::span<const std::byte, NKV_PAGE_HEADER_BYTES> bytes_of(const nkv_page_header& header) {
  return std::as_bytes(std::span<const nkv_page_header, 1>(&header, 1));
}

uint32_t hot_checksum(const nkv_page_header& header) {
  return crc32c(bytes_of(header).first(kHotCovered));
}

uint32_t cold_checksum(const nkv_page_header& header) {
  return crc32c(bytes_of(header).subspan(kHotBytes, kColdCovered));
}

bool is_channel_count(uint32_t dim, uint32_t least) {
  return dim >= least && dim <= NKV_MAX_HEAD_DIM && dim % 16 == 0;
}

bool has_known_fields(const nkv_page_header& header, uint8_t known_flags) {
  return header.magic == NKV_PAGE_MAGIC && header.version == NKV_PAGE_VERSION &&
         header.tokens == NKV_PAGE_TOKENS && header.codec <= NKV_CODEC_FP8 &&
         (header.flags & ~known_flags) == 0 && is_possible(shape_of(header)) &&
         header.k_exceptions <= NKV_EXCEPTIONS && header.v_exceptions <= NKV_EXCEPTIONS;
}

bool is_reserved_zero(const nkv_page_header& header) {
  return header.reserved == 0 && header.reserved2 == 0 && header.reserved3 == 0;
}

uint64_t total_bytes(const nkv_page_header& header, const nkv_page_layout& layout) {
  if (header.codec == NKV_CODEC_NONE) return layout.total_bytes;
  return page_aligned(uint64_t{NKV_PAGE_HEADER_BYTES} + header.payload_bytes);
}

}  // namespace

nkv_page_shape shape_of(const nkv_page_header& header) {
  return {.k_form = header.k_form,
          .v_form = header.v_form,
          .dtype = header.dtype,
          .flags = header.flags,
          .head_dim = header.head_dim,
          .value_dim = header.value_dim};
}

bool is_possible(const nkv_page_shape& shape) {
  const bool is_bf16 = shape.dtype == NKV_DTYPE_BF16;
  if (shape.dtype > NKV_DTYPE_INT8 || shape.dtype == NKV_DTYPE_FP32) return false;
  if (shape.k_form != NKV_ROW_FORM_RAW && !(shape.k_form == NKV_ROW_FORM_DELTA4 && is_bf16)) {
    return false;
  }
  if (!is_channel_count(shape.head_dim, 16)) return false;
  switch (shape.v_form) {
    case NKV_ROW_FORM_RAW:
      return is_channel_count(shape.value_dim, 16);
    case NKV_ROW_FORM_DELTA4:
      return is_bf16 && is_channel_count(shape.value_dim, 16);
    case NKV_ROW_FORM_NONE:
      return is_channel_count(shape.value_dim, 0) && shape.value_dim <= shape.head_dim;
    default:
      return false;
  }
}

uint32_t payload_bytes(const nkv_page_layout& layout) {
  uint32_t end = NKV_PAGE_HEADER_BYTES;
  for (size_t i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {
    if (layout.bytes[i] != 0) end = layout.offset[i] + layout.bytes[i];
  }
  return end - NKV_PAGE_HEADER_BYTES;
}

void seal(nkv_page_header& header) {
  header.crc_hot = hot_checksum(header);
  header.crc_cold = cold_checksum(header);
}

uint32_t& stored_checksum(nkv_page_header& header, nkv_page_array array) {
  switch (array) {
    case NKV_PAGE_ARRAY_K_EXPONENTS:
      return header.crc_k_exponents;
    case NKV_PAGE_ARRAY_K_ROWS:
      return header.crc_k_rows;
    case NKV_PAGE_ARRAY_K_EXCEPTIONS:
      return header.crc_k_exceptions;
    case NKV_PAGE_ARRAY_KEY_SCALES:
      return header.crc_key_scales;
    case NKV_PAGE_ARRAY_V_EXPONENTS:
      return header.crc_v_exponents;
    case NKV_PAGE_ARRAY_V_ROWS:
      return header.crc_v_rows;
    case NKV_PAGE_ARRAY_CODE_SUMMARY:
      return header.crc_code_summary;
    case NKV_PAGE_ARRAY_K_SIGNS:
      return header.crc_k_signs;
    case NKV_PAGE_ARRAY_K_CODES:
      return header.crc_k_codes;
    case NKV_PAGE_ARRAY_V_CODES:
      return header.crc_v_codes;
    case NKV_PAGE_ARRAY_K_GAINS:
      return header.crc_k_gains;
    case NKV_PAGE_ARRAY_V_EXCEPTIONS:
      break;
  }
  return header.crc_v_exceptions;
}

Verdict Page::accept(const Domain& domain, const nkv_page_entry& entry, uint64_t index,
                     Acceptance acceptance, Page* page) {
  const uint64_t address = uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
  if (!domain.window.contains(address, NKV_PAGE_HEADER_BYTES)) {
    return {NKV_STATUS_ADDRESS_FAULT, index};
  }
  nkv_page_header header{};
  std::memcpy(&header, domain.window.at(address, NKV_PAGE_HEADER_BYTES).data(),
              acceptance.whole_header ? NKV_PAGE_HEADER_BYTES : kHotBytes);

  if (header.magic == 0) return {NKV_STATUS_STALE_PAGE, index};
  if (header.crc_hot != hot_checksum(header)) return {NKV_STATUS_CORRUPT, index};
  if (acceptance.whole_header && header.crc_cold != cold_checksum(header)) {
    return {NKV_STATUS_CORRUPT, index};
  }
  if (header.generation != entry.generation || header.state != NKV_PAGE_STATE_CLOSED) {
    return {NKV_STATUS_STALE_PAGE, index};
  }
  if (header.tenant != domain.tenant || !has_known_fields(header, domain.page_flags) ||
      header.k_exponent != entry.k_exponent || header.v_exponent != entry.v_exponent) {
    return {NKV_STATUS_BAD_PAGE, index};
  }
  // Without its second half this holds too: it was read as zeros.
  if (!is_reserved_zero(header)) return {NKV_STATUS_BAD_PAGE, index};
  if (header.codec != NKV_CODEC_NONE && !acceptance.any_codec) {
    return {NKV_STATUS_COLD_PAGE, index};
  }
  nkv_page_layout layout;
  const nkv_page_shape shape = shape_of(header);
  nkv_lay_out_page(&shape, &layout);
  const uint64_t bytes = total_bytes(header, layout);
  if (!domain.window.contains(address, bytes)) return {NKV_STATUS_ADDRESS_FAULT, index};

  page->header_ = header;
  page->layout_ = layout;
  page->address_ = address;
  page->bytes_ = domain.window.at(address, bytes);
  page->whole_header_ = acceptance.whole_header;
  return {};
}

bool Page::is_intact(nkv_page_array array) const {
  nkv_page_header header = header_;
  return crc32c(this->array(array)) == stored_checksum(header, array);
}

bool Page::is_intact() const {
  if (header_.codec != NKV_CODEC_NONE) {
    const auto payload = bytes_.subspan(NKV_PAGE_HEADER_BYTES, header_.payload_bytes);
    return crc32c(payload) == header_.crc_v_exceptions;
  }
  // What a page without codes says of them is not looked at: a device without codes knows none.
  const int end = has_codes() ? NKV_PAGE_ARRAY_COUNT : NKV_PAGE_ARRAY_CODE_SUMMARY;
  for (int i = 0; i < end; ++i) {
    if (!is_intact(static_cast<nkv_page_array>(i))) return false;
  }
  return true;
}

}  // namespace nearkv::model
