// TRANSCODE of pages whose exponents lie in compressed planes: rows of every kind, and payloads
// that a library would take and the format forbids.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "transcodes.hpp"
#include "zstd_reference.hpp"

namespace nearkv::rtl_test {
namespace {

AppendShape any_rows_shape(test::Random& random) {
  AppendShape shape = random_append_shape(random);
  shape.head_dim = std::min<std::uint16_t>(shape.head_dim, 128);
  shape.value_dim = std::min<std::uint16_t>(shape.value_dim, 128);
  return shape;
}

// All element types, widths and forms, rows that no compressor shrinks and rows of zeros.
TEST(TranscodePlanesTest, OfAnyRows) {
  MoveUnit unit;
  unsigned done = 0;
  for (unsigned number = 0; number < 60 && !testing::Test::HasFailure(); number += case_step()) {
    test::Random random = test::case_random(4000 + number);
    unit.fill_with_garbage(random);
    unit.set_pace({.reads = kPaces[number % 3], .writes = kPaces[number / 3 % 3]});
    const AppendShape shape = any_rows_shape(random);
    std::vector<nkv_page_entry> sources =
        store_pages(unit, shape, test::pick(random, 1, 3), random, kPlaneCodecs[number % 2]);
    if (sources.empty()) continue;
    const Moves work =
        transcodes_of(unit, std::move(sources), NKV_CODEC_NONE, kEnoughBytes, random);
    SCOPED_TRACE(test::case_name(4000 + number) + ": " + shape.name());
    expect_moved_as_far(unit, work, &model::transcode);
    done += unit.models_outcome().verdict.ok();
  }
  EXPECT_GT(done, 40U / case_step());
}

/// Whether no offset is zero in an LZ4 block, as far as it is one.
bool offsets_are_right(const Bytes& block) {
  const auto extended = [&](std::size_t length, std::size_t* at) {
    if (length != 15) return length;
    while (*at < block.size() && block[*at] == 255) length += block[(*at)++];
    return *at < block.size() ? length + block[(*at)++] : length;
  };
  for (std::size_t at = 0; at < block.size();) {
    const unsigned token = block[at++];
    at += extended(token >> 4, &at);
    if (at + 2 > block.size()) return true;
    if (block[at] == 0 && block[at + 1] == 0) return false;
    at += 2;
    extended(token & 15, &at);
  }
  return true;
}

/// Whether no section of a page's block is one that a library takes although its format forbids it.
bool sections_are_right(std::span<const std::byte> block, std::uint8_t codec, std::uint8_t dtype,
                        std::size_t dim) {
  struct Format {
    unsigned sign, exponent, mantissa;
  };
  const Format format = dtype == NKV_DTYPE_FP16       ? Format{1, 5, 10}
                        : dtype == NKV_DTYPE_FP8_E4M3 ? Format{1, 4, 3}
                        : dtype == NKV_DTYPE_FP8_E5M2 ? Format{1, 5, 2}
                        : dtype == NKV_DTYPE_INT8     ? Format{0, 4, 4}
                                                      : Format{1, 8, 7};
  std::vector<std::size_t> plain{dim};
  if (format.exponent > 4) plain.push_back((format.exponent - 4) * 8 * dim);
  const bool is_zstd = codec == NKV_CODEC_PLANES_ZSTD;
  plain.insert(plain.end(), is_zstd ? 1 : 4, is_zstd ? 32 * dim : 8 * dim);
  plain.insert(plain.end(), format.sign + format.mantissa, 8 * dim);
  std::size_t at = 2 * plain.size();
  for (std::size_t section = 0; section < plain.size(); ++section) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, &block[2 * section], sizeof(stored));
    if (at + stored > block.size()) return true;  // Wrong before any decoder sees it.
    if (stored != 0 && stored < plain[section]) {
      Bytes bytes(stored);
      std::memcpy(bytes.data(), &block[at], stored);
      if (is_zstd ? !decode_strictly(bytes, plain[section]) : !offsets_are_right(bytes)) {
        return false;
      }
    }
    at += stored;
  }
  return true;
}

// Every checksum is right, and still a directory, a section or a size is wrong. Of sections that
// their formats forbid the libraries take some; the unit takes none.
TEST(TranscodePlanesTest, ThatAreNotWhatTheirPagesSay) {
  MoveUnit unit;
  test::Random random = test::case_random(11);
  unsigned stopped = 0;
  unsigned done = 0;
  unsigned refused_alone = 0;
  for (unsigned number = 0; number < 180 && !testing::Test::HasFailure(); number += case_step()) {
    unit.fill_with_garbage(random);
    const AppendShape shape = any_rows_shape(random);
    const std::uint8_t codec = kPlaneCodecs[number % 2];
    std::vector<nkv_page_entry> sources = store_pages(unit, shape, 3, random, codec);
    if (sources.empty()) continue;
    const nkv_page_entry entry = sources[1];
    const Moves work =
        transcodes_of(unit, std::move(sources), NKV_CODEC_NONE, kEnoughBytes, random);
    SCOPED_TRACE("round " + std::to_string(number) + ": " + shape.name());
    auto header = unit.get<nkv_page_header>(place_of(entry));
    const std::uint64_t payload = place_of(entry) + NKV_PAGE_HEADER_BYTES;
    const std::uint64_t block = payload + 64;
    auto sizes = unit.get<nkv_cold_payload>(payload);
    const std::uint64_t value_block = block + (sizes.k_bytes + 63) / 64 * 64;
    const bool of_values = sizes.v_bytes != 0 && random() % 2 == 0;
    const std::uint64_t damaged = of_values ? value_block : block;
    const std::uint32_t damaged_bytes = of_values ? sizes.v_bytes : sizes.k_bytes;
    const auto flip = [&](std::uint32_t at) {
      unit.put(damaged + at, static_cast<std::uint8_t>(unit.get<std::uint8_t>(damaged + at) ^
                                                       1U << random() % 8));
    };
    switch (number / 2 % 9) {
      case 0:
        sizes.k_bytes += random() % 2 == 0 ? 1U : -1U;
        unit.put(payload, sizes);
        break;
      case 1:
        (random() % 2 == 0 ? sizes.k_bytes : sizes.v_bytes) = test::pick(random, 1, 20000);
        unit.put(payload, sizes);
        break;
      case 2:
        unit.put(payload + 8 + random() % 8, std::uint8_t{1});
        break;
      case 3:
        header.payload_bytes = test::pick(random, 0, header.payload_bytes);
        break;
      case 4:  // Shorter or longer by what follows its block.
        if (sizes.v_bytes == 0 || (header.flags & NKV_PAGE_FLAG_KEY_SCALES) != 0) break;
        sizes.v_bytes -= test::pick(random, 1, std::min<std::uint32_t>(sizes.v_bytes, 100));
        header.payload_bytes = static_cast<std::uint32_t>(value_block - payload) + sizes.v_bytes;
        unit.put(payload, sizes);
        break;
      case 5:  // A directory.
        flip(test::pick(random, 0, 20));
        break;
      default:  // Any section.
        for (unsigned hits = test::pick(random, 1, 3); hits > 0; --hits) {
          flip(test::pick(random, 18, damaged_bytes - 1));
        }
        break;
    }
    reseal(unit, entry, header);
    const std::span<const std::byte> bytes = unit.window();
    const bool are_right =
        number / 2 % 9 < 5 ||
        sections_are_right(bytes.subspan(damaged, damaged_bytes), codec, header.dtype,
                           of_values ? header.value_dim : header.head_dim);
    if (are_right) {
      expect_moved_as_far(unit, work, &model::transcode);
    } else {
      ++refused_alone;
      expect_stopped_at(unit, work, 1, NKV_STATUS_CORRUPT, &model::transcode);
    }
    stopped += unit.models_outcome().verdict.status == NKV_STATUS_CORRUPT;
    done += unit.models_outcome().verdict.ok();
  }
  std::printf("  %u stopped, %u not, %u by the letter of a format\n", stopped, done, refused_alone);
  EXPECT_GT(stopped, 60U / case_step());
  EXPECT_GT(done, 15U / case_step());
}

}  // namespace
}  // namespace nearkv::rtl_test
