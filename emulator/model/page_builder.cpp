#include "page_builder.hpp"

#include <algorithm>
#include <cstring>

#include "crc32c.hpp"
#include "delta4.hpp"
#include "element.hpp"
#include "page.hpp"
#include "page_list.hpp"
#include "row_codes.hpp"

namespace nearkv::model {

namespace {

// Places arrays into the page and their checksums into its header.
class PageWriter {
 public:
  explicit PageWriter(const nkv_page_header& identity) : header_(identity) {
    const nkv_page_shape shape = shape_of(identity);
    nkv_lay_out_page(&shape, &layout_);
    bytes_.resize(layout_.total_bytes);
  }

  nkv_page_header& header() { return header_; }

  void put(nkv_page_array array, std::span<const std::byte> content) {
    std::copy(content.begin(), content.end(),
              bytes_.begin() + static_cast<std::ptrdiff_t>(layout_.offset[array]));
  }

  template <typename T>
  void put_values(nkv_page_array array, std::span<const T> values) {
    put(array, std::as_bytes(values));
  }

  // Every array has been put.
  BuiltPage finish() {
    for (int i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {
      const auto array = static_cast<nkv_page_array>(i);
      stored_checksum(header_, array) =
          crc32c(std::span(bytes_).subspan(layout_.offset[array], layout_.bytes[array]));
    }
    header_.payload_bytes = payload_bytes(layout_);
    seal(header_);
    std::memcpy(bytes_.data(), &header_, sizeof(header_));
    return {.header = header_, .bytes = std::move(bytes_)};
  }

 private:
  nkv_page_header header_;
  nkv_page_layout layout_;
  std::vector<std::byte> bytes_;
};

uint64_t nonfinite_tokens(std::span<const Number> keys, uint32_t head_dim) {
  TokenMask tokens = 0;
  for (uint32_t element = 0; element < keys.size(); ++element) {
    if (!keys[element].finite) tokens |= token_bit(element / head_dim);
  }
  return tokens;
}

// The values of a page without value rows: the leading channels of its keys (2.3).
std::vector<Number> leading_channels(std::span<const Number> keys, uint32_t head_dim,
                                     uint32_t value_dim) {
  std::vector<Number> values;
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const auto row = keys.subspan(size_t{token} * head_dim, value_dim);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// Plane number `plane` of a tensor's cells, after those that `bits` holds.
void append_plane(const RowCodes& codes, const CodeForm& form, int plane,
                  std::vector<std::byte>* bits) {
  const size_t start = bits->size();
  bits->resize(start + codes.cell.size() / 8);
  for (size_t element = 0; element < codes.cell.size(); ++element) {
    const unsigned bit = codes.cell[element] >> (form.planes - 1 - plane) & 1u;
    (*bits)[start + element / 8] |= static_cast<std::byte>(bit << element % 8);
  }
}

void append_factors(const RowCodes& codes, std::vector<std::byte>* summary) {
  for (size_t token = 0; token < NKV_PAGE_TOKENS; token += 2) {
    summary->push_back(static_cast<std::byte>(codes.factor[token] | codes.factor[token + 1] << 4));
  }
}

void append_mean(const RowCodes& codes, std::vector<std::byte>* summary) {
  for (const int8_t mean : codes.mean) summary->push_back(static_cast<std::byte>(mean));
}

// The arrays of codes, and what the header says of them (section 11).
void put_codes(std::span<const Number> keys, std::span<const Number> values, const SourceRows& rows,
               PageWriter* page) {
  const RowCodes k = encode_rows(keys, rows.gains, rows.sign_set, kKeyCodes);
  const RowCodes v = encode_rows(values, {}, rows.sign_set, kValueCodes);
  nkv_page_header& header = page->header();
  header.k_mean_power = k.mean_power;
  header.v_mean_power = v.mean_power;
  header.k_top = k.top;
  header.v_top = v.top;
  header.sign_set = static_cast<uint8_t>(rows.sign_set);

  std::vector<std::byte> summary;
  append_factors(k, &summary);
  append_factors(v, &summary);
  append_mean(k, &summary);
  append_mean(v, &summary);
  page->put(NKV_PAGE_ARRAY_CODE_SUMMARY, summary);
  std::vector<std::byte> signs;
  append_plane(k, kKeyCodes, 0, &signs);
  page->put(NKV_PAGE_ARRAY_K_SIGNS, signs);
  std::vector<std::byte> key_planes;
  for (int plane = 1; plane < kKeyCodes.planes; ++plane) {
    append_plane(k, kKeyCodes, plane, &key_planes);
  }
  page->put(NKV_PAGE_ARRAY_K_CODES, key_planes);
  std::vector<std::byte> value_planes;
  for (int plane = 0; plane < kValueCodes.planes; ++plane) {
    append_plane(v, kValueCodes, plane, &value_planes);
  }
  page->put(NKV_PAGE_ARRAY_V_CODES, value_planes);
  page->put_values<int8_t>(NKV_PAGE_ARRAY_K_GAINS, rows.gains);
}

// What a header says of codes that there are none of, whatever the one that it is built from says.
void say_nothing_of_codes(nkv_page_header* header) {
  header->k_mean_power = 0;
  header->v_mean_power = 0;
  header->k_top = 0;
  header->v_top = 0;
  header->sign_set = 0;
}

struct TensorArrays {
  nkv_page_array exponents;
  nkv_page_array rows;
  nkv_page_array exceptions;
};

// Whether the tensor fits; `exception_count` is set if its form has exceptions.
bool put_tensor(uint8_t form, std::span<const std::byte> source, uint32_t dim,
                const TensorArrays& arrays, PageWriter* page, uint8_t* exception_count) {
  if (form == NKV_ROW_FORM_NONE) return true;
  if (form == NKV_ROW_FORM_RAW) {
    page->put(arrays.rows, source);
    return true;
  }
  std::vector<uint16_t> patterns(source.size() / sizeof(uint16_t));
  std::memcpy(patterns.data(), source.data(), source.size());
  const std::optional<Delta4> delta4 = encode_delta4(patterns, dim);
  if (!delta4) return false;
  page->put_values<uint8_t>(arrays.exponents, delta4->exponents);
  page->put(arrays.rows, delta4->rows);
  page->put_values<nkv_row_exception>(arrays.exceptions, delta4->exceptions);
  *exception_count = delta4->exception_count;
  return true;
}

}  // namespace

std::optional<BuiltPage> build_page(const nkv_page_header& identity, const SourceRows& rows) {
  PageWriter page(identity);
  nkv_page_header& header = page.header();
  const uint32_t head_dim = identity.head_dim;
  const uint32_t value_dim = identity.value_dim;
  const auto keys = decode_elements(identity.dtype, rows.keys, size_t{NKV_PAGE_TOKENS} * head_dim);
  const auto values =
      identity.v_form == NKV_ROW_FORM_NONE
          ? leading_channels(keys, head_dim, value_dim)
          : decode_elements(identity.dtype, rows.values, size_t{NKV_PAGE_TOKENS} * value_dim);

  header.k_exponent = static_cast<uint8_t>(largest_exponent(keys));
  header.nonfinite = nonfinite_tokens(keys, head_dim);
  page.put_values<float>(NKV_PAGE_ARRAY_KEY_SCALES, rows.key_scales);
  header.v_exponent = static_cast<uint8_t>(largest_exponent(values));
  if ((identity.flags & NKV_PAGE_FLAG_CODES) != 0) {
    put_codes(keys, values, rows, &page);
  } else {
    say_nothing_of_codes(&header);
  }

  const bool fits =
      put_tensor(identity.k_form, rows.keys, head_dim,
                 {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS, NKV_PAGE_ARRAY_K_EXCEPTIONS},
                 &page, &header.k_exceptions) &&
      put_tensor(identity.v_form, rows.values, value_dim,
                 {NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS, NKV_PAGE_ARRAY_V_EXCEPTIONS},
                 &page, &header.v_exceptions);
  if (!fits) return std::nullopt;
  return page.finish();
}

void publish(const Window& window, const BuiltPage& page, nkv_page_entry* entry) {
  const auto place = window.at(uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES, page.bytes.size());
  std::memset(place.data(), 0, NKV_PAGE_HEADER_BYTES);
  std::memcpy(place.data() + NKV_PAGE_HEADER_BYTES, page.bytes.data() + NKV_PAGE_HEADER_BYTES,
              page.bytes.size() - NKV_PAGE_HEADER_BYTES);
  std::memcpy(place.data(), page.bytes.data(), NKV_PAGE_HEADER_BYTES);
  entry->k_exponent = page.header.k_exponent;
  entry->v_exponent = page.header.v_exponent;
}

}  // namespace nearkv::model
