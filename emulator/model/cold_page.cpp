#include "cold_page.hpp"

#include <cstring>
#include <span>

#include "crc32c.hpp"
#include "domain.hpp"
#include "rows.hpp"

namespace nearkv::model {

namespace {

constexpr uint64_t kPayload = NKV_PAGE_HEADER_BYTES;
constexpr uint64_t kFirstBlock = burst_aligned(kPayload + NKV_COLD_PAYLOAD_BYTES);

bool has_value_rows(const nkv_page_header& header) { return header.v_form != NKV_ROW_FORM_NONE; }
bool has_scales(const nkv_page_header& header) {
  return (header.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
}

bool has_codes(const nkv_page_header& header) { return (header.flags & NKV_PAGE_FLAG_CODES) != 0; }

// Where the parts of a compressed page lie, in bytes from its start.
struct ColdLayout {
  uint64_t values;
  uint64_t scales;
  uint64_t gains;
  uint64_t end;

  ColdLayout(const nkv_page_header& header, const nkv_cold_payload& payload) {
    end = kFirstBlock + payload.k_bytes;
    values = burst_aligned(end);
    if (has_value_rows(header)) end = values + payload.v_bytes;
    scales = burst_aligned(end);
    if (has_scales(header)) end = scales + NKV_PAGE_TOKENS * sizeof(float);
    gains = burst_aligned(end);
    if (has_codes(header)) end = gains + header.head_dim;
  }
};

BlockShape key_shape(const nkv_page_header& header) {
  return {Tensor::kKeys, static_cast<RowDtype>(header.dtype), header.head_dim};
}

BlockShape value_shape(const nkv_page_header& header) {
  return {Tensor::kValues, static_cast<RowDtype>(header.dtype), header.value_dim};
}

uint8_t unpack(const Page& page, BlockCoder& coder, PageRows* rows) {
  const nkv_page_header& header = page.header();
  if (!is_codec(header.codec)) return NKV_STATUS_UNSUPPORTED;
  const auto bytes = page.bytes();
  const uint64_t end = kPayload + header.payload_bytes;
  if (end < kFirstBlock) return NKV_STATUS_CORRUPT;
  nkv_cold_payload payload;
  std::memcpy(&payload, bytes.data() + kPayload, sizeof(payload));
  const ColdLayout layout(header, payload);
  const bool has_unasked_values = !has_value_rows(header) && payload.v_bytes != 0;
  if (layout.end != end || payload.reserved != 0 || has_unasked_values) return NKV_STATUS_CORRUPT;

  uint8_t status = coder.decode(static_cast<Codec>(header.codec), key_shape(header),
                                bytes.subspan(kFirstBlock, payload.k_bytes), &rows->keys);
  if (status == NKV_STATUS_OK && has_value_rows(header)) {
    status = coder.decode(static_cast<Codec>(header.codec), value_shape(header),
                          bytes.subspan(layout.values, payload.v_bytes), &rows->values);
  }
  if (has_scales(header)) {
    rows->key_scales.resize(NKV_PAGE_TOKENS);
    std::memcpy(rows->key_scales.data(), bytes.data() + layout.scales,
                NKV_PAGE_TOKENS * sizeof(float));
  }
  if (has_codes(header)) {
    rows->gains.resize(header.head_dim);
    std::memcpy(rows->gains.data(), bytes.data() + layout.gains, rows->gains.size());
  }
  return status;
}

nkv_page_header cold_header(const nkv_page_header& source, uint16_t generation, uint8_t codec) {
  nkv_page_header header = source;
  header.generation = generation;
  header.codec = codec;
  for (int i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {
    stored_checksum(header, static_cast<nkv_page_array>(i)) = 0;
  }
  return header;
}

uint8_t build_cold(const nkv_page_header& source, uint16_t generation, uint8_t codec,
                   const PageRows& rows, BlockCoder& coder, BuiltPage* page) {
  nkv_page_header header = cold_header(source, generation, codec);
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  uint8_t status = coder.encode(static_cast<Codec>(codec), key_shape(header), rows.keys, &keys);
  if (status == NKV_STATUS_OK && has_value_rows(header)) {
    status = coder.encode(static_cast<Codec>(codec), value_shape(header), rows.values, &values);
  }
  if (status != NKV_STATUS_OK) return status;

  const nkv_cold_payload payload{.k_bytes = static_cast<uint32_t>(keys.size()),
                                 .v_bytes = static_cast<uint32_t>(values.size()),
                                 .reserved = 0};
  const ColdLayout layout(header, payload);
  header.payload_bytes = static_cast<uint32_t>(layout.end - kPayload);
  std::vector<std::byte> bytes(page_aligned(layout.end));
  const auto put = [&bytes](uint64_t offset, std::span<const std::byte> part) {
    if (!part.empty()) std::memcpy(bytes.data() + offset, part.data(), part.size());
  };
  put(kPayload, std::as_bytes(std::span(&payload, 1)));
  put(kFirstBlock, keys);
  put(layout.values, values);
  put(layout.scales, std::as_bytes(std::span(rows.key_scales)));
  put(layout.gains, std::as_bytes(std::span(rows.gains)));
  header.crc_v_exceptions = crc32c(std::span(bytes).subspan(kPayload, header.payload_bytes));
  seal(header);
  put(0, std::as_bytes(std::span(&header, 1)));
  *page = {.header = header, .bytes = std::move(bytes)};
  return NKV_STATUS_OK;
}

}  // namespace

uint8_t rows_of(const Page& page, BlockCoder& coder, PageRows* rows) {
  if (has_codes(page.header()) && page.header().sign_set >= NKV_SIGN_SETS) {
    return NKV_STATUS_BAD_PAGE;
  }
  if (page.header().codec != NKV_CODEC_NONE) return unpack(page, coder, rows);
  if (page.has_codes()) {
    const auto gains = page.array(NKV_PAGE_ARRAY_K_GAINS);
    rows->gains.resize(gains.size());
    std::memcpy(rows->gains.data(), gains.data(), gains.size());
  }
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const auto key = source_key_row(page, token);
    rows->keys.insert(rows->keys.end(), key.begin(), key.end());
    if (has_scales(page.header())) rows->key_scales.push_back(key_scale(page, token));
    if (!has_value_rows(page.header())) continue;
    const auto value = source_value_row(page, token);
    rows->values.insert(rows->values.end(), value.begin(), value.end());
  }
  return NKV_STATUS_OK;
}

uint8_t build_in_codec(const nkv_page_header& source, uint16_t generation, uint8_t codec,
                       const PageRows& rows, BlockCoder& coder, BuiltPage* page) {
  if (codec != NKV_CODEC_NONE) return build_cold(source, generation, codec, rows, coder, page);
  nkv_page_header identity = source;
  identity.generation = generation;
  identity.codec = NKV_CODEC_NONE;
  identity.k_exceptions = 0;
  identity.v_exceptions = 0;
  const SourceRows source_rows{.keys = rows.keys,
                               .values = rows.values,
                               .key_scales = rows.key_scales,
                               .gains = rows.gains,
                               .sign_set = source.sign_set};
  auto built = build_page(identity, source_rows);
  if (!built) {
    identity.k_form = NKV_ROW_FORM_RAW;
    if (has_value_rows(identity)) identity.v_form = NKV_ROW_FORM_RAW;
    built = build_page(identity, source_rows);
  }
  if (!built) return NKV_STATUS_INTERNAL;  // RAW holds any rows.
  *page = std::move(*built);
  return NKV_STATUS_OK;
}

}  // namespace nearkv::model
