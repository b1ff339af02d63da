// TRANSCODE: pages in every codec and back, and what may not be done with a compressed one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "nearkv/codec.hpp"
#include "support/checksum.hpp"
#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/page_commands.hpp"
#include "support/page_source.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kTokens = 3 * NKV_PAGE_TOKENS;
constexpr std::uint8_t kForms[] = {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4};
constexpr std::uint8_t kLossless[] = {NKV_CODEC_RESIDUAL, NKV_CODEC_PLANES_LZ4,
                                      NKV_CODEC_PLANES_ZSTD};
constexpr std::uint8_t kLossy[] = {NKV_CODEC_INT8, NKV_CODEC_INT4, NKV_CODEC_FP8};

/// A list that TRANSCODE has written.
struct Transcoded {
  StoredList list;
  nkv_completion completion{};
  std::vector<std::uint32_t> sizes;
};

Transcoded transcode(BenchDevice* bench, const StoredList& list, std::uint8_t codec,
                     std::uint32_t slot_bytes, std::uint16_t generation = 1) {
  const nkv_pages_command command = transcode_command(bench, list, codec, slot_bytes, generation);
  Transcoded result{list, bench->run(command), {}};
  result.list.page_list = command.destination;
  const auto* const sizes = bench->at<std::uint32_t>(command.result);
  result.sizes.assign(sizes, sizes + result.completion.count);
  return result;
}

/// Room for a page in any codec: what does not shrink grows by its directory.
std::uint32_t roomy(const StoredList& list) { return 2 * list.page_bytes + 4096; }

nkv_page_header header_of(BenchDevice* bench, const StoredList& list, std::size_t index) {
  nkv_page_header header{};
  std::memcpy(&header, page_at(bench, list.page_list, index, sizeof(header)).data(),
              sizeof(header));
  return header;
}

std::vector<std::byte> page_bytes(BenchDevice* bench, const Transcoded& pages, std::size_t index) {
  const auto bytes = page_at(bench, pages.list.page_list, index, pages.sizes[index]);
  return {bytes.begin(), bytes.end()};
}

/// Rows of one tensor as READ gives them.
std::vector<std::byte> read_rows(BenchDevice* bench, const StoredList& list, std::uint8_t tensor,
                                 std::size_t row_bytes) {
  nkv_read_command command{};
  command.opcode = NKV_OPCODE_READ;
  command.tensor = tensor;
  command.count = static_cast<std::uint32_t>(list.tokens);
  command.page_list = list.page_list;
  command.result = bench->allocate(list.tokens * row_bytes);
  EXPECT_EQ(bench->run(command).status, NKV_STATUS_OK);
  const auto* const rows = bench->at<std::byte>(command.result);
  return {rows, rows + list.tokens * row_bytes};
}

/// Every kind of page that APPEND makes.
std::vector<PageSource> sources() {
  std::vector<PageSource> all;
  const KvData data = make_kv(Shape::kBiased, kTokens, 80, 48, 1);
  for (const std::uint8_t k_form : kForms) {
    for (const std::uint8_t v_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_NONE}) {
      all.push_back(page_source(data, k_form, v_form));
    }
  }
  all.push_back(page_source(make_kv(Shape::kSparse, kTokens, 128, 128, 2), NKV_ROW_FORM_DELTA4,
                            NKV_ROW_FORM_DELTA4));
  all.push_back(page_source(make_kv(Shape::kGaussian, kTokens, 576, 512, 3), NKV_ROW_FORM_DELTA4,
                            NKV_ROW_FORM_NONE));
  all.push_back(page_source(make_kv(Shape::kGaussian, kTokens, 16, 16, 4), NKV_ROW_FORM_RAW,
                            NKV_ROW_FORM_NONE));
  all.back().value_dim = 0;
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const bool key_scales : {false, true}) {
      all.push_back(random_source(dtype, 64, 32, key_scales, kTokens, 5));
    }
  }
  return all;
}

bool takes(std::uint8_t codec, const PageSource& source) {
  return codec != NKV_CODEC_RESIDUAL || source.dtype == NKV_DTYPE_BF16;
}

class TranscodeTest : public testing::TestWithParam<std::string> {
 protected:
  BenchDevice bench_{GetParam()};
  const std::vector<std::uint8_t> lossless_ = lossless_codecs(bench_.device());
  const std::uint8_t codec_ = best_codec(bench_.device());  ///< Where any will do.
};

TEST_P(TranscodeTest, IsOffered) {
  EXPECT_TRUE(offers_feature(bench_.device(), NKV_FEATURE_TRANSCODE));
}

TEST_P(TranscodeTest, LosslessCodecsGiveThePageBackToTheBit) {
  if (lossless_.empty()) GTEST_SKIP() << kNoLosslessCodec;
  for (const PageSource& source : sources()) {
    if (source.head_dim > widest_head(bench_.device())) continue;
    for (const std::uint8_t codec : lossless_) {
      SCOPED_TRACE(testing::Message()
                   << "codec " << int{codec} << " dtype " << int{source.dtype} << " forms "
                   << int{source.k_form} << int{source.v_form} << " head_dim " << source.head_dim);
      bench_.clear();
      const StoredList list = append(&bench_, source);
      ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
      const Transcoded cold = transcode(&bench_, list, codec, roomy(list), 5);
      if (!takes(codec, source)) {
        EXPECT_EQ(cold.completion.status, NKV_STATUS_BAD_PAGE);
        continue;
      }
      ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(cold.completion.count, list.pages());
      EXPECT_EQ(bench_.run(pages_command(cold.list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
      const Transcoded warm = transcode(&bench_, cold.list, NKV_CODEC_NONE, list.page_bytes);
      ASSERT_EQ(warm.completion.status, NKV_STATUS_OK);
      for (std::size_t page = 0; page < list.pages(); ++page) {
        EXPECT_EQ(warm.sizes[page], list.page_bytes);
        EXPECT_TRUE(
            std::ranges::equal(page_at(&bench_, list.page_list, page, list.page_bytes),
                               page_at(&bench_, warm.list.page_list, page, list.page_bytes)))
            << "page " << page;
      }
    }
  }
}

// Layout and header of a compressed page, spelt out from the contract.
TEST_P(TranscodeTest, LaysAPageOutAsTheContractSays) {
  if (!offers_codec(bench_.device(), NKV_CODEC_RESIDUAL)) {
    GTEST_SKIP() << "skipped: this device builds no pages of RESIDUAL (register CODECS)";
  }
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 32, true, kTokens, 6);
  const StoredList list = append(&bench_, source);
  const Transcoded cold = transcode(&bench_, list, NKV_CODEC_RESIDUAL, roomy(list), 5);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  CodecWorkspace workspace;
  for (std::size_t index = 0; index < list.pages(); ++index) {
    const std::vector<std::byte> page = page_bytes(&bench_, cold, index);
    nkv_page_header expected = header_of(&bench_, list, index);
    nkv_page_header header = header_of(&bench_, cold.list, index);
    nkv_cold_payload payload{};
    std::memcpy(&payload, page.data() + 128, sizeof(payload));
    EXPECT_EQ(payload.reserved, 0u);
    const auto align = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::size_t values_at = align(192 + payload.k_bytes);
    const std::size_t scales_at = align(values_at + payload.v_bytes);
    const std::size_t end = scales_at + 64 * sizeof(float);
    EXPECT_EQ(header.payload_bytes, end - 128);
    EXPECT_EQ(page.size(), (end + 255) / 256 * 256);
    EXPECT_TRUE(std::all_of(page.begin() + static_cast<std::ptrdiff_t>(end), page.end(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
    const std::span<const std::byte> bytes(page);
    EXPECT_EQ(header.crc_v_exceptions, checksum(bytes.subspan(128, end - 128)));
    EXPECT_EQ(header.crc_hot, checksum(bytes.first(60)));
    EXPECT_EQ(header.crc_cold, checksum(bytes.subspan(64, 60)));

    // What the header says besides is what the source's said.
    expected.codec = NKV_CODEC_RESIDUAL;
    expected.generation = 5;
    expected.payload_bytes = header.payload_bytes;
    expected.crc_k_digest = 0;
    for (std::uint32_t& crc : expected.crc_k_plane) crc = 0;
    for (std::uint32_t* crc :
         {&expected.crc_k_exponents, &expected.crc_k_rows, &expected.crc_k_exceptions,
          &expected.crc_key_scales, &expected.crc_v_sum, &expected.crc_v_exponents,
          &expected.crc_v_rows}) {
      *crc = 0;
    }
    expected.crc_v_exceptions = header.crc_v_exceptions;
    expected.crc_hot = header.crc_hot;
    expected.crc_cold = header.crc_cold;
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(&header, 1)),
                                   std::as_bytes(std::span(&expected, 1))));
    const auto* const entry = bench_.at<nkv_page_entry>(cold.list.page_list) + index;
    EXPECT_EQ(entry->k_exponent, header.k_exponent);
    EXPECT_EQ(entry->v_exponent, header.v_exponent);

    // The blocks hold the rows as APPEND took them.
    std::vector<std::byte> keys(std::size_t{64} * 64 * 2);
    std::vector<std::byte> values(std::size_t{64} * 32 * 2);
    ASSERT_EQ(decode(Codec::kResidual, {Tensor::kKeys, RowDtype::kBf16, 64},
                     bytes.subspan(192, payload.k_bytes), keys, workspace),
              Status::kOk);
    ASSERT_EQ(decode(Codec::kPlanesLz4, {Tensor::kValues, RowDtype::kBf16, 32},
                     bytes.subspan(values_at, payload.v_bytes), values, workspace),
              Status::kOk);
    EXPECT_EQ(
        std::memcmp(values.data(), source.values.data() + index * values.size(), values.size()), 0);
    for (std::size_t token = 0; token < 64; ++token) {
      const std::byte* const row = source.keys.data() + (index * 64 + token) * source.key_stride();
      EXPECT_EQ(std::memcmp(keys.data() + token * 128, row, 128), 0);
      EXPECT_EQ(std::memcmp(page.data() + scales_at + 4 * token, row + 128, 4), 0);
    }
  }
}

TEST_P(TranscodeTest, FromCodecToCodecIsTheSameAsByWayOfNone) {
  if (lossless_.empty()) GTEST_SKIP() << kNoLosslessCodec;
  const PageSource source = page_source(make_kv(Shape::kTopics, kTokens, 64, 64, 7),
                                        NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4);
  for (const std::uint8_t first : lossless_) {
    for (int second = NKV_CODEC_RESIDUAL; second <= NKV_CODEC_FP8; ++second) {
      const auto codec = static_cast<std::uint8_t>(second);
      if (!offers_codec(bench_.device(), codec)) continue;
      bench_.clear();
      const StoredList list = append(&bench_, source);
      const Transcoded direct = transcode(&bench_, list, codec, roomy(list), 5);
      const Transcoded once = transcode(&bench_, list, first, roomy(list), 4);
      const Transcoded twice = transcode(&bench_, once.list, codec, roomy(list), 5);
      ASSERT_EQ(direct.completion.status, NKV_STATUS_OK);
      ASSERT_EQ(twice.completion.status, NKV_STATUS_OK);
      EXPECT_EQ(twice.sizes, direct.sizes);
      for (std::size_t page = 0; page < list.pages(); ++page) {
        EXPECT_EQ(page_bytes(&bench_, twice, page), page_bytes(&bench_, direct, page))
            << int{first} << " to " << second;
      }
    }
  }
}

TEST_P(TranscodeTest, LossyCodecsGiveTheRowsThatTheirFormatGives) {
  const std::size_t head_dim = 80;
  const std::size_t value_dim = 48;
  const PageSource source = page_source(make_kv(Shape::kGaussian, kTokens, head_dim, value_dim, 8),
                                        NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4);
  CodecWorkspace workspace;
  for (const std::uint8_t codec : kLossy) {
    bench_.clear();
    const StoredList list = append(&bench_, source);
    const Transcoded cold = transcode(&bench_, list, codec, list.page_bytes);
    ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
    const Transcoded warm = transcode(&bench_, cold.list, NKV_CODEC_NONE, roomy(list));
    ASSERT_EQ(warm.completion.status, NKV_STATUS_OK);
    EXPECT_EQ(bench_.run(pages_command(warm.list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
    const auto expect_rows = [&](Tensor tensor, std::size_t dim, std::span<const std::byte> rows) {
      const BlockShape shape{tensor, RowDtype::kBf16, static_cast<std::uint16_t>(dim)};
      const std::vector<std::byte> got =
          read_rows(&bench_, warm.list, static_cast<std::uint8_t>(tensor), 2 * dim);
      std::vector<std::byte> block(encoded_bound(static_cast<Codec>(codec), shape));
      std::vector<std::byte> expected(block_bytes(shape));
      for (std::size_t page = 0; page < list.pages(); ++page) {
        std::size_t bytes = 0;
        ASSERT_EQ(
            encode(static_cast<Codec>(codec), shape,
                   rows.subspan(page * expected.size(), expected.size()), block, &bytes, workspace),
            Status::kOk);
        ASSERT_EQ(decode(static_cast<Codec>(codec), shape, std::span(block).first(bytes), expected,
                         workspace),
                  Status::kOk);
        EXPECT_EQ(
            std::memcmp(expected.data(), got.data() + page * expected.size(), expected.size()), 0)
            << "codec " << int{codec} << " page " << page;
      }
    };
    expect_rows(Tensor::kKeys, head_dim, source.keys);
    expect_rows(Tensor::kValues, value_dim, source.values);
  }
}

TEST_P(TranscodeTest, LossyCodecsTakeFiniteBf16Only) {
  PageSource finite = page_source(make_kv(Shape::kGaussian, kTokens, 64, 64, 9), NKV_ROW_FORM_RAW,
                                  NKV_ROW_FORM_RAW);
  PageSource infinite_key = finite;
  PageSource nan_value = finite;
  const std::uint16_t infinity = 0x7F80;
  const std::uint16_t nan = 0xFFC1;
  const std::size_t second_page = 8192;
  std::memcpy(infinite_key.keys.data() + second_page + 10, &infinity, 2);
  std::memcpy(nan_value.values.data() + second_page + 20, &nan, 2);
  for (const std::uint8_t codec : kLossy) {
    for (const PageSource& source : {infinite_key, nan_value}) {
      bench_.clear();
      const StoredList list = append(&bench_, source);
      const Transcoded cold = transcode(&bench_, list, codec, roomy(list));
      EXPECT_EQ(cold.completion.status, NKV_STATUS_BAD_PAGE);
      EXPECT_EQ(cold.completion.detail, 1u);
      EXPECT_EQ(cold.completion.count, 1u);
    }
    bench_.clear();
    const StoredList half = append(&bench_, random_source(NKV_DTYPE_FP16, 64, 32, false, 64, 1));
    EXPECT_EQ(transcode(&bench_, half, codec, roomy(half)).completion.status, NKV_STATUS_BAD_PAGE);
  }
}

// INT8 with zero -512 and scale 171 turns 0 into 1, which is too small for the channel's DELTA4.
TEST_P(TranscodeTest, RowsThatDelta4NoLongerHoldsBecomeRaw) {
  KvData data;
  data.tokens = NKV_PAGE_TOKENS;
  data.head_dim = data.value_dim = 16;
  data.keys.resize(1024);
  data.values.resize(1024);
  data.keys[0] = to_bf16(-512);
  data.keys[16] = to_bf16(43008);
  const PageSource source = page_source(data, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4);
  PageSource raw = source;
  raw.k_form = raw.v_form = NKV_ROW_FORM_RAW;
  const StoredList list = append(&bench_, source);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  const Transcoded cold = transcode(&bench_, list, NKV_CODEC_INT8, list.page_bytes);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  EXPECT_EQ(transcode(&bench_, cold.list, NKV_CODEC_NONE, list.page_bytes).completion.status,
            NKV_STATUS_PAGE_OVERFLOW);
  const std::uint32_t raw_bytes = raw.layout().total_bytes;
  ASSERT_GT(raw_bytes, list.page_bytes);
  const Transcoded warm = transcode(&bench_, cold.list, NKV_CODEC_NONE, raw_bytes);
  ASSERT_EQ(warm.completion.status, NKV_STATUS_OK);
  EXPECT_EQ(warm.sizes[0], raw_bytes);
  EXPECT_EQ(header_of(&bench_, warm.list, 0).k_form, NKV_ROW_FORM_RAW);
  EXPECT_EQ(header_of(&bench_, warm.list, 0).v_form, NKV_ROW_FORM_RAW);
  const std::vector<std::byte> keys = read_rows(&bench_, warm.list, NKV_TENSOR_KEYS, 32);
  std::uint16_t second = 0;
  std::memcpy(&second, keys.data() + 64, sizeof(second));
  EXPECT_EQ(from_bf16(second), 1.0F);
}

TEST_P(TranscodeTest, AFlippedBitAnywhereIsCorrupt) {
  const PageSource source = page_source(make_kv(Shape::kGaussian, 64, 32, 16, 10),
                                        NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4);
  const StoredList list = append(&bench_, source);
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  const auto expect_corrupt = [&](const StoredList& from, std::uint8_t codec,
                                  const std::function<bool(std::size_t)>& is_used) {
    const nkv_pages_command command = transcode_command(&bench_, from, codec, list.page_bytes, 1);
    const auto page = page_at(&bench_, from.page_list, 0, list.page_bytes);
    const auto place = page_at(&bench_, command.destination, 0, list.page_bytes);
    for (std::size_t at = 0; at < page.size(); at += test_every()) {
      if (!is_used(at)) continue;
      const std::byte flipped{static_cast<unsigned char>(1U << (at * 5 % 8))};
      page[at] ^= flipped;
      const nkv_completion completion = bench_.run(command);
      ASSERT_EQ(completion.status, NKV_STATUS_CORRUPT) << "byte " << at;
      ASSERT_EQ(completion.count, 0u);
      // Nothing to be found at the new place.
      ASSERT_EQ(*reinterpret_cast<const std::uint32_t*>(place.data()), 0u) << "byte " << at;
      ASSERT_EQ(bench_.run(pages_command(from, NKV_OPCODE_SCRUB)).status, NKV_STATUS_CORRUPT);
      page[at] ^= flipped;
    }
    EXPECT_EQ(bench_.run(command).status, NKV_STATUS_OK);
  };
  const std::size_t cold_end = 128 + header_of(&bench_, cold.list, 0).payload_bytes;
  expect_corrupt(cold.list, NKV_CODEC_NONE, [&](std::size_t at) { return at < cold_end; });
  const struct nkv_page_layout layout = source.layout();
  expect_corrupt(list, codec_, [&](std::size_t at) {
    bool used = at < sizeof(nkv_page_header);
    for (int array = 0; array < NKV_PAGE_ARRAY_COUNT; ++array) {
      used |= at >= layout.offset[array] && at < layout.offset[array] + layout.bytes[array];
    }
    return used;
  });
}

// Checksums are right, but the payload is not what the header says.
TEST_P(TranscodeTest, AForgedPayloadIsCorrupt) {
  PageSource source = random_source(NKV_DTYPE_BF16, 32, 16, true, 64, 11);
  // Finite, as lossy codecs want their rows.
  for (std::vector<std::byte>* const rows : {&source.keys, &source.values}) {
    for (std::size_t i = 1; i < rows->size(); i += 2) (*rows)[i] &= std::byte{0xBF};
  }
  const StoredList list = append(&bench_, source);
  const auto payload_of = [](std::span<std::byte> page) {
    return reinterpret_cast<nkv_cold_payload*>(page.data() + 128);
  };
  using Forge = std::function<void(nkv_page_header*, std::span<std::byte>)>;
  std::vector<std::pair<const char*, Forge>> forgeries{
      {"k_bytes", [&](auto*, auto page) { payload_of(page)->k_bytes += 64; }},
      {"k_bytes huge", [&](auto*, auto page) { payload_of(page)->k_bytes = ~0U; }},
      {"v_bytes", [&](auto*, auto page) { payload_of(page)->v_bytes -= 64; }},
      {"reserved", [&](auto*, auto page) { payload_of(page)->reserved = 1; }},
      {"payload_bytes", [](auto* header, auto) { header->payload_bytes -= 4; }},
      {"no payload", [](auto* header, auto) { header->payload_bytes = 0; }},
      {"no scales", [](auto* header, auto) { header->flags = 0; }},
      {"other codec", [](auto* header, auto) { header->codec = NKV_CODEC_INT4; }},
      {"other type", [](auto* header, auto) { header->dtype = NKV_DTYPE_INT8; }},
      {"other shape", [](auto* header, auto) { header->head_dim = 48; }},
      {"V not stored", [](auto* header, auto) { header->v_form = NKV_ROW_FORM_NONE; }},
  };
  // Any bytes are a block of a lossy codec.
  if (!lossless_.empty()) {
    forgeries.emplace_back("K block", [](auto*, auto page) { page[192] ^= std::byte{0xFF}; });
  }
  for (const auto& [name, forge] : forgeries) {
    bench_.clear();
    const StoredList written = append(&bench_, source);
    const Transcoded cold = transcode(&bench_, written, codec_, roomy(list));
    ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
    const auto page = page_at(&bench_, cold.list.page_list, 0, cold.sizes[0]);
    auto* const header = reinterpret_cast<nkv_page_header*>(page.data());
    forge(header, page);
    header->crc_v_exceptions = checksum(page.subspan(128, header->payload_bytes));
    header->crc_hot = checksum(page.first(60));
    header->crc_cold = checksum(page.subspan(64, 60));
    const nkv_completion completion =
        transcode(&bench_, cold.list, NKV_CODEC_NONE, roomy(list)).completion;
    EXPECT_EQ(completion.status, NKV_STATUS_CORRUPT) << name;
  }
}

TEST_P(TranscodeTest, StopsAtTheFirstPageThatDoesNotFit) {
  if (lossless_.empty())
    GTEST_SKIP() << kNoLosslessCodec << "; those of the others are all of one size";
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 64, false, kTokens, 12);
  std::fill_n(source.keys.begin(), 64 * 128, std::byte{0});  // The first page shrinks to nothing.
  std::fill_n(source.values.begin(), 64 * 128, std::byte{0});
  const StoredList list = append(&bench_, source);
  const Transcoded all = transcode(&bench_, list, codec_, roomy(list));
  ASSERT_EQ(all.completion.status, NKV_STATUS_OK);
  ASSERT_LT(all.sizes[0], all.sizes[1]);
  const Transcoded exact = transcode(&bench_, list, codec_, all.sizes[1]);
  EXPECT_EQ(exact.completion.status, NKV_STATUS_OK) << "a slot of just the size";

  const Transcoded first = transcode(&bench_, list, codec_, all.sizes[1] - 1);
  EXPECT_EQ(first.completion.status, NKV_STATUS_PAGE_OVERFLOW);
  EXPECT_EQ(first.completion.detail, 1u);
  EXPECT_EQ(first.completion.count, 1u);
  EXPECT_EQ(page_bytes(&bench_, first, 0), page_bytes(&bench_, all, 0));
  for (const std::size_t page : {1U, 2U}) {
    EXPECT_EQ(header_of(&bench_, first.list, page).magic, 0u) << "page " << page;
    EXPECT_EQ(bench_.at<nkv_page_entry>(first.list.page_list)[page].k_exponent, 0);
  }
  EXPECT_EQ(bench_.run(pages_command(list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
}

TEST_P(TranscodeTest, PlacesMustBeFreeAndInsideTheWindow) {
  const PageSource source = page_source(make_kv(Shape::kGaussian, kTokens, 32, 32, 13),
                                        NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  const StoredList list = append(&bench_, source);
  const auto expect = [&](int status, std::uint64_t detail,
                          const std::function<void(nkv_pages_command*)>& change) {
    nkv_pages_command command = transcode_command(&bench_, list, codec_, roomy(list), 2);
    change(&command);
    const nkv_completion completion = bench_.run(command);
    EXPECT_EQ(completion.status, status);
    EXPECT_EQ(completion.detail, detail);
  };
  const auto entry = [&](const nkv_pages_command* command, std::size_t index) {
    return bench_.at<nkv_page_entry>(command->destination) + index;
  };
  const std::uint64_t destination = offsetof(nkv_pages_command, destination);
  const std::uint64_t end = bench_.window().size();
  expect(NKV_STATUS_BAD_FIELD, destination, [&](auto* c) { c->destination = c->source; });
  expect(NKV_STATUS_BAD_FIELD, destination,
         [&](auto* c) { entry(c, 2)->page = entry(c, 0)->page + 1; });
  expect(NKV_STATUS_BAD_FIELD, offsetof(nkv_pages_command, slot_bytes),
         [](auto* c) { c->slot_bytes = 0; });
  expect(NKV_STATUS_ADDRESS_FAULT, end, [&](auto* c) { c->result = end; });
  expect(NKV_STATUS_ADDRESS_FAULT, end, [&](auto* c) { c->destination = end; });
  expect(NKV_STATUS_ADDRESS_FAULT, 1, [&](auto* c) {
    entry(c, 1)->page = static_cast<std::uint32_t>(end / NKV_PAGE_GRAIN_BYTES);
  });
  expect(NKV_STATUS_BAD_FIELD, offsetof(nkv_pages_command, codec), [](auto* c) { c->codec = 7; });
  EXPECT_EQ(bench_.run(pages_command(list, NKV_OPCODE_SCRUB)).status, NKV_STATUS_OK);
}

TEST_P(TranscodeTest, OnlyWholePageCommandsTakeAColdPage) {
  const KvData data = make_kv(Shape::kGaussian, kTokens, 64, 48, 14);
  const std::vector<std::uint16_t> queries = make_queries(data, 2, 3.0, 2);
  const StoredList list = append(&bench_, page_source(data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  for (const PageCommand& command : page_commands(&bench_, cold.list, queries, codec_)) {
    const nkv_completion completion = bench_.run(command.bytes);
    EXPECT_EQ(completion.status, command.whole_pages ? NKV_STATUS_OK : NKV_STATUS_COLD_PAGE)
        << command.name;
    EXPECT_EQ(completion.count, command.whole_pages ? cold.list.pages() : 0u) << command.name;
  }
  // ERASE came last: nothing is left of any byte.
  for (std::size_t page = 0; page < cold.list.pages(); ++page) {
    const auto bytes = page_at(&bench_, cold.list.page_list, page, cold.sizes[page]);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_P(TranscodeTest, ACopyOfAColdPageIsThePageUnderItsNewGeneration) {
  const StoredList list = append(&bench_, page_source(make_kv(Shape::kTopics, kTokens, 64, 64, 15),
                                                      NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes, 3);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  StoredList copy = cold.list;
  copy.page_list = free_places(&bench_, list, list.page_bytes, 1);
  ASSERT_EQ(bench_.run(pages_command(cold.list, NKV_OPCODE_COPY, copy.page_list)).status,
            NKV_STATUS_OK);
  const Transcoded direct = transcode(&bench_, cold.list, NKV_CODEC_NONE, roomy(list), 1);
  const Transcoded warm = transcode(&bench_, copy, NKV_CODEC_NONE, roomy(list), 1);
  ASSERT_EQ(direct.completion.status, NKV_STATUS_OK);
  ASSERT_EQ(warm.completion.status, NKV_STATUS_OK);
  for (std::size_t page = 0; page < list.pages(); ++page) {
    EXPECT_EQ(page_bytes(&bench_, warm, page), page_bytes(&bench_, direct, page));
  }
}

TEST_P(TranscodeTest, WhoHoldsAnOldEntryIsToldSo) {
  const StoredList list = append(&bench_, page_source(make_kv(Shape::kTopics, kTokens, 64, 64, 16),
                                                      NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_DELTA4));
  const Transcoded cold = transcode(&bench_, list, codec_, list.page_bytes, 3);
  ASSERT_EQ(cold.completion.status, NKV_STATUS_OK);
  bench_.at<nkv_page_entry>(cold.list.page_list)[1].generation = 2;
  const nkv_completion completion =
      transcode(&bench_, cold.list, NKV_CODEC_NONE, list.page_bytes).completion;
  EXPECT_EQ(completion.status, NKV_STATUS_STALE_PAGE);
  EXPECT_EQ(completion.detail, 1u);
  EXPECT_EQ(completion.count, 1u);
}

INSTANTIATE_TEST_SUITE_P(Devices, TranscodeTest, testing::ValuesIn(device_uris()), device_name);

/// Everything that TRANSCODE wrote, page after page.
std::vector<std::byte> all_pages(const std::string& uri, const PageSource& source,
                                 std::uint8_t codec, std::uint8_t then) {
  BenchDevice bench(uri);
  const StoredList list = append(&bench, source);
  const Transcoded cold = transcode(&bench, list, codec, roomy(list), 5);
  const Transcoded again = transcode(&bench, cold.list, then, roomy(list), 6);
  std::vector<std::byte> bytes;
  for (const Transcoded* const pages : {&cold, &again}) {
    EXPECT_EQ(pages->completion.status, NKV_STATUS_OK) << uri;
    for (std::size_t page = 0; page < pages->sizes.size(); ++page) {
      const std::vector<std::byte> one = page_bytes(&bench, *pages, page);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
  }
  return bytes;
}

TEST(TranscodeParity, CpuAndModelWriteTheSameBytes) {
  const auto expect_alike = [](const PageSource& source, std::uint8_t codec, std::uint8_t then) {
    const auto cpu = all_pages("cpu:?memory=16MiB&threads=2", source, codec, then);
    const auto model = all_pages("model:?memory=16MiB", source, codec, then);
    EXPECT_FALSE(cpu.empty());
    EXPECT_EQ(cpu, model) << int{codec} << " dtype " << int{source.dtype} << " forms "
                          << int{source.k_form} << int{source.v_form};
  };
  for (const PageSource& source : sources()) {
    for (const std::uint8_t codec : kLossless) {
      if (takes(codec, source)) expect_alike(source, codec, NKV_CODEC_NONE);
    }
  }
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kOutliers, Shape::kSparse}) {
    const PageSource source =
        page_source(make_kv(shape, kTokens, 80, 64, 17), NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
    for (const std::uint8_t codec : kLossy) {
      expect_alike(source, codec, NKV_CODEC_NONE);
      expect_alike(source, codec, NKV_CODEC_RESIDUAL);
    }
  }
}

}  // namespace
}  // namespace nearkv::test
