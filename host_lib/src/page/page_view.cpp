#include "page/page_view.hpp"

#include <bit>
#include <cstddef>
#include <cstring>

#include "page/checksum.hpp"
#include "page/lent_rows.hpp"
#include "page/page_checks.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

/// A shape that the layout function and the kernels can handle, whatever the bytes said.
bool is_sound(const nkv_page_header& header) {
  const bool delta4 = header.k_form == NKV_ROW_FORM_DELTA4 || header.v_form == NKV_ROW_FORM_DELTA4;
  const bool values_stored = header.v_form != NKV_ROW_FORM_NONE;
  return header.head_dim >= 16 && header.head_dim <= NKV_MAX_HEAD_DIM &&
         header.head_dim % 16 == 0 && header.value_dim <= NKV_MAX_HEAD_DIM &&
         header.value_dim % 16 == 0 && header.tokens == NKV_PAGE_TOKENS &&
         header.k_form <= NKV_ROW_FORM_DELTA4 && header.v_form <= NKV_ROW_FORM_NONE &&
         header.dtype <= NKV_DTYPE_INT8 && header.dtype != NKV_DTYPE_FP32 &&
         (!delta4 || header.dtype == NKV_DTYPE_BF16) && header.codec <= NKV_CODEC_FP8 &&
         (header.flags & ~NKV_PAGE_FLAG_ALL) == 0 && header.k_exceptions <= NKV_EXCEPTIONS &&
         header.v_exceptions <= NKV_EXCEPTIONS &&
         (values_stored ? header.value_dim > 0 : header.value_dim <= header.head_dim);
}

}  // namespace

nkv_page_layout lay_out_without_rows(nkv_page_shape shape) {
  shape.k_form = shape.v_form = NKV_ROW_FORM_NONE;
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  return layout;
}

nkv_page_shape shape_of(const nkv_page_header& header) {
  nkv_page_shape shape{};
  shape.k_form = header.k_form;
  shape.v_form = header.v_form;
  shape.dtype = header.dtype;
  shape.flags = header.flags;
  shape.head_dim = header.head_dim;
  shape.value_dim = header.value_dim;
  return shape;
}

std::uint32_t payload_bytes(const nkv_page_layout& layout) {
  std::uint32_t end = sizeof(nkv_page_header);
  for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    if (layout.bytes[array] != 0) end = layout.offset[array] + layout.bytes[array];
  }
  return end - static_cast<std::uint32_t>(sizeof(nkv_page_header));
}

std::uint64_t page_bytes(const nkv_page_header& header) {
  if (header.codec == NKV_CODEC_NONE) {
    const nkv_page_shape shape = shape_of(header);
    nkv_page_layout layout{};
    nkv_lay_out_page(&shape, &layout);
    return layout.total_bytes;
  }
  const std::uint64_t used = sizeof(header) + std::uint64_t{header.payload_bytes};
  return round_up(used, NKV_PAGE_GRAIN_BYTES);
}

std::uint32_t& stored_checksum(nkv_page_header& header, nkv_page_array array) {
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
    default:
      return header.crc_v_exceptions;
  }
}

std::uint32_t hot_checksum(const nkv_page_header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(nkv_page_header, crc_hot)));
}

std::uint32_t cold_checksum(const nkv_page_header& header) {
  return crc32c(
      std::as_bytes(std::span(&header, 1))
          .subspan(NKV_BURST_BYTES, offsetof(nkv_page_header, crc_cold) - NKV_BURST_BYTES));
}

Status PageView::open(const Window& window, const nkv_page_entry& entry, HeaderDepth depth) {
  const std::uint64_t address = address_of(entry);
  const std::span<std::byte> head = window.at(address, sizeof(header_));
  if (head.empty()) return Status::kAddressFault;
  std::memcpy(&header_, head.data(), sizeof(header_));
  if (header_.magic == 0) return Status::kStalePage;  // Freed, and not used again.
  if (header_.crc_hot != hot_checksum(header_) ||
      (depth == HeaderDepth::kRows && header_.crc_cold != cold_checksum(header_))) {
    return Status::kCorrupt;
  }
  if (header_.generation != entry.generation) return Status::kStalePage;
  if (header_.state != NKV_PAGE_STATE_CLOSED) return Status::kStalePage;
  if (header_.magic != NKV_PAGE_MAGIC || header_.version != NKV_PAGE_VERSION ||
      header_.tenant != window.tenant() || !is_sound(header_) ||
      header_.k_exponent != entry.k_exponent || header_.v_exponent != entry.v_exponent ||
      header_.reserved != 0 || header_.reserved2 != 0 ||
      (depth == HeaderDepth::kRows && header_.reserved3 != 0)) {
    return Status::kBadPage;
  }
  if (header_.codec != NKV_CODEC_NONE) return Status::kColdPage;
  // Most pages of a list are laid out like the one before.
  const nkv_page_shape shape = shape_of(header_);
  const auto bytes = std::bit_cast<std::uint64_t>(shape);
  if (bytes != shape_ || window.lent_rows() != lent_rows_) {
    shape_ = bytes;
    lent_rows_ = window.lent_rows();
    lay_out(shape);
  }
  const std::span<std::byte> page = window.at(address, layout_.total_bytes);
  if (page.empty()) return Status::kAddressFault;
  page_ = page.data();
  checks_ = window.checks();
  return Status::kOk;
}

void PageView::lay_out(const nkv_page_shape& shape) {
  if (lent_rows_ == nullptr) {
    nkv_lay_out_page(&shape, &layout_);
    return;
  }
  layout_ = lay_out_without_rows(shape);
  // What reading them counts.
  layout_.bytes[NKV_PAGE_ARRAY_K_ROWS] =
      NKV_PAGE_TOKENS * nkv_row_bytes(shape.k_form, shape.dtype, shape.head_dim);
  layout_.bytes[NKV_PAGE_ARRAY_V_ROWS] =
      NKV_PAGE_TOKENS * nkv_row_bytes(shape.v_form, shape.dtype, shape.value_dim);
}

Status PageView::verify(std::span<const nkv_page_array> arrays) const {
  if (lent_rows_ != nullptr) return Status::kOk;
  nkv_page_header header = header_;
  for (const nkv_page_array array : arrays) {
    if (crc32c(bytes(array)) == stored_checksum(header, array)) continue;
    if (checks_ != nullptr) checks_->drop(page_);
    return Status::kCorrupt;
  }
  return Status::kOk;
}

Status PageView::check(std::span<const nkv_page_array> arrays) const {
  if (checks_ != nullptr && checks_->are_kept()) {
    if (checks_->holds(page_, header_)) return Status::kOk;
    const Status status = verify_all();
    if (status == Status::kOk) checks_->note(page_, header_);
    return status;
  }
  return verify(arrays);
}

Status PageView::verify_all() const {
  // What a page without codes says of them is not looked at: a device without codes knows none.
  const int end = has_codes() ? NKV_PAGE_ARRAY_COUNT : NKV_PAGE_ARRAY_CODE_SUMMARY;
  for (int array = 0; array < end; ++array) {
    const Status status = verify(static_cast<nkv_page_array>(array));
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

RowSource PageView::keys_at(const std::byte* page) const {
  RowSource source;
  source.form = header_.k_form;
  source.dtype = header_.dtype;
  source.dim = header_.head_dim;
  source.row_bytes = layout_.bytes[NKV_PAGE_ARRAY_K_ROWS] / NKV_PAGE_TOKENS;
  if (lent_rows_ != nullptr) {
    source.rows = reinterpret_cast<const std::uint8_t*>(lent_rows_->of(page).keys);
    return source;
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(page);
  source.rows = bytes + layout_.offset[NKV_PAGE_ARRAY_K_ROWS];
  source.exponents = bytes + layout_.offset[NKV_PAGE_ARRAY_K_EXPONENTS];
  return source;
}

RowSource PageView::values_at(const std::byte* page) const {
  if (header_.v_form == NKV_ROW_FORM_NONE) return keys_at(page);
  RowSource source;
  source.form = header_.v_form;
  source.dtype = header_.dtype;
  source.dim = header_.value_dim;
  source.row_bytes = layout_.bytes[NKV_PAGE_ARRAY_V_ROWS] / NKV_PAGE_TOKENS;
  if (lent_rows_ != nullptr) {
    source.rows = reinterpret_cast<const std::uint8_t*>(lent_rows_->of(page).values);
    return source;
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(page);
  source.rows = bytes + layout_.offset[NKV_PAGE_ARRAY_V_ROWS];
  source.exponents = bytes + layout_.offset[NKV_PAGE_ARRAY_V_EXPONENTS];
  return source;
}

}  // namespace nearkv
