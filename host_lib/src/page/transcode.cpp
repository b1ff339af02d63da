#include "page/transcode.hpp"

#include <algorithm>
#include <cstring>

#include "page/encode.hpp"
#include "page/page_reader.hpp"
#include "page/page_view.hpp"

namespace nearkv {

Status Transcoder::read_rows(const Window& window, const nkv_page_entry& entry,
                             nkv_page_header* header) {
  const Status intact = scrub_page(window, entry);
  if (intact != Status::kOk) return intact;
  PageView view;
  const Status status = view.open(window, entry, HeaderDepth::kRows);
  *header = view.header();
  const bool opened = status == Status::kOk || status == Status::kColdPage;
  if (opened && view.has_codes() && header->sign_set >= NKV_SIGN_SETS) return Status::kBadPage;
  if (status == Status::kColdPage) {
    // Not the header that was scrubbed, if somebody writes there.
    const std::span<const std::byte> page = window.at(address_of(entry), page_bytes(*header));
    return page.empty() ? Status::kAddressFault : cold_.unpack(*header, page, &rows_);
  }
  if (status != Status::kOk) return status;
  const PageReader reader(view);
  rows_.resize(*header);
  const std::size_t key_bytes = reader.key_bytes();
  for (std::size_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    reader.read_key(token, std::span(rows_.keys).subspan(token * key_bytes, key_bytes));
  }
  for (std::size_t at = 0, token = 0; at < rows_.values.size(); ++token) {
    reader.read_value(token, std::span(rows_.values).subspan(at, reader.value_bytes()));
    at += reader.value_bytes();
  }
  const std::span<const std::byte> scales = view.bytes(NKV_PAGE_ARRAY_KEY_SCALES);
  rows_.scales.assign(scales.begin(), scales.end());
  std::ranges::copy_n(view.data<std::int8_t>(NKV_PAGE_ARRAY_K_GAINS), std::ssize(rows_.gains),
                      rows_.gains.begin());
  return Status::kOk;
}

Status Transcoder::write_attendable(const nkv_page_header& header, Persistence* persistence,
                                    MovedPage* page) {
  const std::size_t row_bytes = rows_.keys.size() / NKV_PAGE_TOKENS;
  SourceRows keys{rows_.keys.data(), row_bytes};
  if (!rows_.scales.empty()) {
    keys.stride_bytes += sizeof(float);
    scaled_keys_.resize(NKV_PAGE_TOKENS * keys.stride_bytes);
    for (std::size_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      std::byte* const row = scaled_keys_.data() + token * keys.stride_bytes;
      std::memcpy(row, rows_.keys.data() + token * row_bytes, row_bytes);
      std::memcpy(row + row_bytes, rows_.scales.data() + token * sizeof(float), sizeof(float));
    }
    keys.first = scaled_keys_.data();
  }
  const SourceRows values{rows_.values.data(), rows_.values.size() / NKV_PAGE_TOKENS};
  const PageIdentity identity{header.sequence_id, header.first_token, header.layer,
                              header.kv_head,     header.tenant,      page->destination.generation};
  nkv_page_shape shape = shape_of(header);
  const auto encode_as = [&](const nkv_page_shape& wanted) {
    nkv_page_layout layout{};
    nkv_lay_out_page(&wanted, &layout);
    if (layout.total_bytes > page->slot.size()) return Status::kPageOverflow;
    page->bytes = layout.total_bytes;
    vacate_slot(page->slot, persistence);
    return encode_page(wanted, {keys, values, rows_.gains, header.sign_set}, identity, page->slot,
                       &page->destination);
  };
  const Status status = encode_as(shape);
  if (status != Status::kPageOverflow) return status;
  // A lossy codec can leave more exceptions than DELTA4 holds.
  shape.k_form = NKV_ROW_FORM_RAW;
  if (shape.v_form != NKV_ROW_FORM_NONE) shape.v_form = NKV_ROW_FORM_RAW;
  return encode_as(shape);
}

Status Transcoder::write_cold(const nkv_page_header& header, std::uint8_t codec,
                              Persistence* persistence, MovedPage* page) {
  nkv_page_header written = header;
  written.generation = page->destination.generation;
  written.codec = codec;
  const Status status = cold_.pack(rows_, &written, page->slot, persistence);
  if (status != Status::kOk) return status;
  page->bytes = static_cast<std::uint32_t>(page_bytes(written));
  page->destination.k_exponent = written.k_exponent;
  page->destination.v_exponent = written.v_exponent;
  return Status::kOk;
}

Status Transcoder::transcode(const Window& window, std::uint8_t codec, MovedPage* page) {
  nkv_page_header header{};
  const Status status = read_rows(window, page->source, &header);
  if (status != Status::kOk) return status;
  page->flags = header.flags;
  Persistence* const persistence = &window.persistence();
  return codec == NKV_CODEC_NONE ? write_attendable(header, persistence, page)
                                 : write_cold(header, codec, persistence, page);
}

}  // namespace nearkv
