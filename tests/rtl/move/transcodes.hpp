// Pages to transcode on nkv_move, and that it does so as the model does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "crc32c.hpp"
#include "stored_pages.hpp"

namespace nearkv::rtl_test {

inline constexpr std::uint8_t kCodecs[] = {NKV_CODEC_NONE, NKV_CODEC_INT8, NKV_CODEC_INT4,
                                           NKV_CODEC_FP8};
inline constexpr std::uint8_t kPlaneCodecs[] = {NKV_CODEC_PLANES_LZ4, NKV_CODEC_PLANES_ZSTD};
inline constexpr std::uint32_t kEnoughBytes = 64 << 10;

/// Places for all of them, `slot_bytes` each.
inline Moves transcodes_of(MoveUnit& unit, std::vector<nkv_page_entry> sources, std::uint8_t codec,
                           std::uint32_t slot_bytes, test::Random& random) {
  Moves work{.sources = std::move(sources), .destinations = {}, .bytes = {}, .command = {}};
  nkv_pages_command& command = work.command;
  command.opcode = NKV_OPCODE_TRANSCODE;
  command.codec = codec;
  command.count = static_cast<std::uint32_t>(work.sources.size());
  command.slot_bytes = slot_bytes;
  command.source = unit.allocate(command.count * sizeof(nkv_page_entry), 8);
  command.destination = unit.allocate(command.count * sizeof(nkv_page_entry), 8);
  command.result = unit.allocate(command.count * sizeof(std::uint32_t) + 64, 4) + random() % 16 * 4;
  for (std::uint32_t page = 0; page < command.count; ++page) {
    nkv_page_entry entry{};
    entry.page = static_cast<std::uint32_t>(unit.allocate(slot_bytes, NKV_PAGE_GRAIN_BYTES) /
                                            NKV_PAGE_GRAIN_BYTES);
    entry.generation = static_cast<std::uint16_t>(random());
    work.destinations.push_back(entry);
    work.bytes.push_back(slot_bytes);
  }
  unit.put_bytes(command.source, std::as_bytes(std::span(work.sources)));
  unit.put_bytes(command.destination, std::as_bytes(std::span(work.destinations)));
  return work;
}

inline AppendShape finite_shape(test::Random& random) {
  AppendShape shape = random_append_shape(random);
  if (random() % 8 != 0) shape.dtype = NKV_DTYPE_BF16;
  shape.any_patterns = false;
  shape.finite = random() % 8 != 0;
  return shape;
}

/// One that every codec takes.
inline AppendShape any_codecs_shape(test::Random& random) {
  AppendShape shape = finite_shape(random);
  shape.dtype = NKV_DTYPE_BF16;
  shape.finite = true;
  return shape;
}

inline std::uint8_t any_source_codec(test::Random& random) {
  return random() % 3 == 0 ? kPlaneCodecs[random() % 2] : kCodecs[test::pick(random, 0, 3)];
}

/// A few pages of one shape and codec after the other.
inline std::vector<nkv_page_entry> random_sources(MoveUnit& unit, test::Random& random) {
  unit.fill_with_garbage(random);
  std::vector<nkv_page_entry> sources;
  while (sources.empty() || (sources.size() < 7 && random() % 3 != 0)) {
    AppendShape shape = finite_shape(random);
    const std::uint8_t codec = any_source_codec(random);
    if (codec > NKV_CODEC_PLANES_ZSTD) {
      shape.dtype = NKV_DTYPE_BF16;
      shape.finite = true;
    }
    for (const nkv_page_entry& entry :
         store_pages(unit, shape, test::pick(random, 1, 3), random, codec)) {
      sources.push_back(entry);
    }
  }
  std::ranges::shuffle(sources, random);
  return sources;
}

inline Moves random_transcodes(MoveUnit& unit, test::Random& random) {
  std::vector<nkv_page_entry> sources = random_sources(unit, random);
  return transcodes_of(unit, std::move(sources), kCodecs[test::pick(random, 0, 3)], kEnoughBytes,
                       random);
}

/// Makes the checksums of a page's payload and header right again.
inline void reseal(MoveUnit& unit, const nkv_page_entry& entry, nkv_page_header header) {
  const auto payload =
      unit.window().subspan(place_of(entry) + NKV_PAGE_HEADER_BYTES, header.payload_bytes);
  header.crc_v_exceptions = model::crc32c(payload);
  model::seal(header);
  unit.put(place_of(entry), header);
}

}  // namespace nearkv::rtl_test
