#include "page/cold_page.hpp"

#include <algorithm>
#include <cstring>

#include "page/checksum.hpp"
#include "page/encode.hpp"
#include "page/page_view.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kPayloadAt = sizeof(nkv_page_header);
constexpr std::size_t kScalesBytes = NKV_PAGE_TOKENS * sizeof(float);

constexpr std::size_t kKeysAt = whole_bursts(kPayloadAt + sizeof(nkv_cold_payload));

bool has_values(const nkv_page_header& header) { return header.v_form != NKV_ROW_FORM_NONE; }
bool has_scales(const nkv_page_header& header) {
  return (header.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0;
}

bool has_codes(const nkv_page_header& header) { return (header.flags & NKV_PAGE_FLAG_CODES) != 0; }

/// Where the parts behind the K block start, and where the last one ends.
struct Places {
  Places(const nkv_page_header& header, const nkv_cold_payload& payload)
      : end(kKeysAt + payload.k_bytes) {
    values = whole_bursts(end);
    if (has_values(header)) end = values + payload.v_bytes;
    scales = whole_bursts(end);
    if (has_scales(header)) end = scales + kScalesBytes;
    gains = whole_bursts(end);
    if (has_codes(header)) end = gains + header.head_dim;
  }

  std::size_t values = 0;
  std::size_t scales = 0;
  std::size_t gains = 0;
  std::size_t end;
};

BlockShape key_shape(const nkv_page_header& header) {
  return {Tensor::kKeys, static_cast<RowDtype>(header.dtype), header.head_dim};
}
BlockShape value_shape(const nkv_page_header& header) {
  return {Tensor::kValues, static_cast<RowDtype>(header.dtype), header.value_dim};
}

Status device_status(Status status, Status otherwise) {
  if (status == Status::kOk) return status;
  return status == Status::kOutOfMemory ? Status::kInternal : otherwise;
}

/// Copies a part and clears what lies between it and the next one.
void place(std::span<std::byte> slot, std::size_t begin, std::span<const std::byte> part,
           std::size_t next) {
  std::ranges::copy(part, slot.begin() + static_cast<std::ptrdiff_t>(begin));
  std::ranges::fill(slot.subspan(begin + part.size(), next - begin - part.size()), std::byte{0});
}

}  // namespace

void PageRows::resize(const nkv_page_header& header) {
  const std::size_t element_bytes = nkv_element_bytes(header.dtype);
  const std::size_t channel_bytes = NKV_PAGE_TOKENS * element_bytes;
  keys.resize(header.head_dim * channel_bytes);
  values.resize(has_values(header) ? header.value_dim * channel_bytes : 0);
  scales.resize(has_scales(header) ? kScalesBytes : 0);
  gains.resize(has_codes(header) ? header.head_dim : 0);
}

Status ColdPageCodec::unpack(const nkv_page_header& header, std::span<const std::byte> page,
                             PageRows* rows) {
  if (!is_codec(header.codec)) return Status::kUnsupported;
  nkv_cold_payload payload{};
  const std::size_t end = kPayloadAt + header.payload_bytes;
  if (end < kKeysAt) return Status::kCorrupt;
  std::memcpy(&payload, page.data() + kPayloadAt, sizeof(payload));
  const Places places(header, payload);
  if (places.end != end || payload.reserved != 0 || (!has_values(header) && payload.v_bytes != 0)) {
    return Status::kCorrupt;
  }
  rows->resize(header);
  Status status = decode(static_cast<Codec>(header.codec), key_shape(header),
                         page.subspan(kKeysAt, payload.k_bytes), rows->keys, workspace_);
  if (status == Status::kOk && has_values(header)) {
    status = decode(static_cast<Codec>(header.codec), value_shape(header),
                    page.subspan(places.values, payload.v_bytes), rows->values, workspace_);
  }
  std::ranges::copy(page.subspan(places.scales, rows->scales.size()), rows->scales.begin());
  if (status == Status::kOk && has_codes(header)) {
    std::memcpy(rows->gains.data(), page.data() + places.gains, rows->gains.size());
  }
  return device_status(status, Status::kCorrupt);
}

Status ColdPageCodec::encode_block(std::uint8_t codec, const BlockShape& shape,
                                   std::span<const std::byte> rows, std::vector<std::byte>* block,
                                   std::uint32_t* bytes) {
  const auto chosen = static_cast<Codec>(codec);
  if (!codec_supports(chosen, shape)) return Status::kBadPage;
  block->resize(encoded_bound(chosen, shape));
  std::size_t used = 0;
  const Status status = encode(chosen, shape, rows, *block, &used, workspace_);
  *bytes = static_cast<std::uint32_t>(used);
  return device_status(status, Status::kBadPage);
}

Status ColdPageCodec::pack(const PageRows& rows, nkv_page_header* header, std::span<std::byte> slot,
                           Persistence* persistence) {
  nkv_cold_payload payload{};
  Status status =
      encode_block(header->codec, key_shape(*header), rows.keys, &key_block_, &payload.k_bytes);
  if (status == Status::kOk && has_values(*header)) {
    status = encode_block(header->codec, value_shape(*header), rows.values, &value_block_,
                          &payload.v_bytes);
  }
  if (status != Status::kOk) return status;
  const Places places(*header, payload);
  header->payload_bytes = static_cast<std::uint32_t>(places.end - kPayloadAt);
  const std::size_t total = page_bytes(*header);
  if (total > slot.size()) return Status::kPageOverflow;

  vacate_slot(slot, persistence);
  place(slot, kPayloadAt, std::as_bytes(std::span(&payload, 1)), kKeysAt);
  place(slot, kKeysAt, std::span(key_block_).first(payload.k_bytes), places.values);
  if (has_values(*header)) {
    place(slot, places.values, std::span(value_block_).first(payload.v_bytes), places.scales);
  }
  place(slot, places.scales, rows.scales, has_codes(*header) ? places.gains : total);
  if (has_codes(*header)) place(slot, places.gains, std::as_bytes(std::span(rows.gains)), total);
  for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    stored_checksum(*header, static_cast<nkv_page_array>(array)) = 0;
  }
  header->crc_v_exceptions = crc32c(slot.subspan(kPayloadAt, header->payload_bytes));
  header->crc_hot = hot_checksum(*header);
  header->crc_cold = cold_checksum(*header);
  write_header(*header, slot);
  return Status::kOk;
}

}  // namespace nearkv
