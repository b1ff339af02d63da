// Pages out of K and V rows, to the bits that APPEND writes (emulator/model/ARITHMETIC.md section
// 2): digest, search planes, exact rows, sums, checksums, header.
#pragma once

#include "pack_keys.hpp"
#include "pack_rows.hpp"
#include "pack_values.hpp"

namespace nearkv::cuda {

/// A block builds a page. Rows are read several times, from the caches after the first; nothing of
/// the page is read back, so that it may lie in memory that is slow to read.
class Pack {
 public:
  Pack(const nearkv_cuda_pack_args& args, const nkv_page_layout& layout)
      : args_(args), layout_(layout) {
    for (unsigned array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      if (layout.bytes[array] == 0) continue;
      payload_bytes_ = layout.offset[array] + layout.bytes[array] - NKV_PAGE_HEADER_BYTES;
    }
  }

  [[nodiscard]] Grid grid() const {
    const std::uint64_t pages = args_.tokens / NKV_PAGE_TOKENS;
    return {args_.kv_heads * pages, sizeof(PackWorkspace)};
  }

  template <typename Block>
  NKV_KERNEL void operator()(Block& block) const {
    const nkv_page_entry entry = args_.entries[block.index()];
    const std::uint64_t address = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
    if (address > args_.window_bytes || layout_.total_bytes > args_.window_bytes - address) {
      if (block.thread() == 0) args_.statuses[block.index()] = NKV_STATUS_ADDRESS_FAULT;
      return;
    }
    PageWriter<Block> page(block, args_, layout_, static_cast<std::byte*>(args_.window) + address);
    page.begin();
    survey_keys(page);
    survey_values(page);
    block.sync();
    write_digest(page);
    write_value_sums(page);
    write_rows(page, kKeys);
    if (page.form(kValues) != NKV_ROW_FORM_NONE) write_rows(page, kValues);
    write_key_scales(page);
    block.sync();
    write_planes(page);
    write_exceptions(page, kKeys);
    write_exceptions(page, kValues);
    page.write_padding();
    block.sync();
    const bool fits = page.own.exceptions[kKeys] <= NKV_EXCEPTIONS &&
                      page.own.exceptions[kValues] <= NKV_EXCEPTIONS;
    if (fits) {
      publish(page, entry);
    } else if (block.thread() == 0) {
      args_.statuses[block.index()] = NKV_STATUS_PAGE_OVERFLOW;
    }
  }

 private:
  /// Writes the header, its first word last: until then there is no page.
  template <typename Block>
  NKV_KERNEL void publish(PageWriter<Block>& page, nkv_page_entry entry) const {
    constexpr std::uint32_t kWords = sizeof(nkv_page_header) / PageWriter<Block>::kWordBytes;
    constexpr std::uint32_t kHalf = kWords / 2;  // Its last word is its checksum.
    Block& block = page.block;
    PackWorkspace& own = page.own;
    if (block.thread() == 0) own.header = header_of(own, entry, block.index());
    block.sync();
    const std::uint32_t at = block.thread();
    std::uint32_t word = 0;
    if (at < kWords) {
      memcpy(&word, reinterpret_cast<const std::byte*>(&own.header) + sizeof(word) * at,
             sizeof(word));
    }
    const std::uint32_t in_half = at % kHalf;
    if (at < kWords && in_half < kHalf - 1) {
      block.flip(&own.checksums[at < kHalf ? own.kHot : own.kCold],
                 multiply(in_half == 0 ? ~word : word, own.tables.power[kHalf - 1 - in_half]));
    }
    block.sync();
    if (at == kHalf - 1) word = ~own.checksums[own.kHot];
    if (at == kWords - 1) word = ~own.checksums[own.kCold];
    auto* const header = reinterpret_cast<std::uint32_t*>(page.start);
    if (at > 0 && at < kWords) header[at] = word;
    block.sync();
    if (at != 0) return;
    block.store_release(header, word);
    entry.k_exponent = static_cast<std::uint8_t>(own.exponent[kKeys]);
    entry.v_exponent = static_cast<std::uint8_t>(own.exponent[kValues]);
    args_.entries[block.index()] = entry;
    args_.statuses[block.index()] = NKV_STATUS_OK;
  }

  [[nodiscard]] NKV_KERNEL nkv_page_header header_of(const PackWorkspace& own,
                                                     const nkv_page_entry& entry,
                                                     std::uint32_t index) const {
    const std::uint32_t pages = args_.tokens / NKV_PAGE_TOKENS;
    nkv_page_header header{};
    header.magic = NKV_PAGE_MAGIC;
    header.version = NKV_PAGE_VERSION;
    header.state = NKV_PAGE_STATE_CLOSED;
    const nkv_page_shape& shape = args_.shape;
    header.flags = shape.flags;
    header.k_form = shape.k_form;
    header.v_form = shape.v_form;
    header.dtype = shape.dtype;
    header.codec = NKV_CODEC_NONE;
    header.head_dim = shape.head_dim;
    header.value_dim = shape.value_dim;
    header.generation = entry.generation;
    header.tokens = NKV_PAGE_TOKENS;
    header.k_exponent = static_cast<std::uint8_t>(own.exponent[kKeys]);
    header.v_exponent = static_cast<std::uint8_t>(own.exponent[kValues]);
    header.k_step_exponent = static_cast<std::int16_t>(own.step_exponent());
    header.nonfinite = own.nonfinite[0] | std::uint64_t{own.nonfinite[1]} << 32;
    header.v_residual = value_residual(own);
    header.tenant = args_.tenant;
    header.k_exceptions = static_cast<std::uint8_t>(own.exceptions[kKeys]);
    header.v_exceptions = static_cast<std::uint8_t>(own.exceptions[kValues]);
    header.sequence_id = args_.sequence;
    header.first_token = args_.first_token + index % pages * NKV_PAGE_TOKENS;
    header.layer = args_.layer;
    header.kv_head = static_cast<std::uint16_t>(args_.kv_head + index / pages);
    header.payload_bytes = payload_bytes_;
    header.crc_k_digest = checksum(own, NKV_PAGE_ARRAY_K_DIGEST);
    for (unsigned plane = 0; plane < NKV_KEY_PLANES; ++plane) {
      header.crc_k_plane[plane] = checksum(own, NKV_PAGE_ARRAY_K_PLANE0 + plane);
    }
    header.crc_k_exponents = checksum(own, NKV_PAGE_ARRAY_K_EXPONENTS);
    header.crc_k_rows = checksum(own, NKV_PAGE_ARRAY_K_ROWS);
    header.crc_k_exceptions = checksum(own, NKV_PAGE_ARRAY_K_EXCEPTIONS);
    header.crc_key_scales = checksum(own, NKV_PAGE_ARRAY_KEY_SCALES);
    header.crc_v_sum = checksum(own, NKV_PAGE_ARRAY_V_SUM);
    header.crc_v_exponents = checksum(own, NKV_PAGE_ARRAY_V_EXPONENTS);
    header.crc_v_rows = checksum(own, NKV_PAGE_ARRAY_V_ROWS);
    header.crc_v_exceptions = checksum(own, NKV_PAGE_ARRAY_V_EXCEPTIONS);
    return header;
  }

  [[nodiscard]] NKV_KERNEL std::uint32_t checksum(const PackWorkspace& own, unsigned array) const {
    return layout_.bytes[array] == 0 ? 0 : ~own.checksums[array];
  }

  nearkv_cuda_pack_args args_;
  struct nkv_page_layout layout_;
  std::uint32_t payload_bytes_ = 0;
};

}  // namespace nearkv::cuda
