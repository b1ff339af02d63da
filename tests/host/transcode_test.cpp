// TRANSCODE: pages in every codec and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "nearkv/codec.hpp"
#include "support/checksum.hpp"
#include "transcoded.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint8_t kForms[] = {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4};
constexpr std::uint8_t kLossless[] = {NKV_CODEC_PLANES_LZ4, NKV_CODEC_PLANES_ZSTD};
constexpr std::uint8_t kLossy[] = {NKV_CODEC_INT8, NKV_CODEC_INT4, NKV_CODEC_FP8};

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
  if (lossless_.empty()) GTEST_SKIP() << kNoLosslessCodec;
  const std::uint8_t codec = lossless_.front();
  PageSource source = random_source(NKV_DTYPE_BF16, 64, 32, true, kTokens, 6);
  const StoredList list = append(&bench_, source);
  const Transcoded cold = transcode(&bench_, list, codec, roomy(list), 5);
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
    expected.codec = codec;
    expected.generation = 5;
    expected.payload_bytes = header.payload_bytes;
    for (std::uint32_t* crc :
         {&expected.crc_k_exponents, &expected.crc_k_rows, &expected.crc_k_exceptions,
          &expected.crc_key_scales, &expected.crc_v_exponents, &expected.crc_v_rows}) {
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
    ASSERT_EQ(decode(static_cast<Codec>(codec), {Tensor::kKeys, RowDtype::kBf16, 64},
                     bytes.subspan(192, payload.k_bytes), keys, workspace),
              Status::kOk);
    ASSERT_EQ(decode(static_cast<Codec>(codec), {Tensor::kValues, RowDtype::kBf16, 32},
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
    for (int second = NKV_CODEC_PLANES_LZ4; second <= NKV_CODEC_FP8; ++second) {
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
      expect_alike(source, codec, NKV_CODEC_NONE);
    }
  }
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kOutliers, Shape::kSparse}) {
    const PageSource source =
        page_source(make_kv(shape, kTokens, 80, 64, 17), NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
    for (const std::uint8_t codec : kLossy) {
      expect_alike(source, codec, NKV_CODEC_NONE);
      expect_alike(source, codec, NKV_CODEC_PLANES_ZSTD);
    }
  }
}

}  // namespace
}  // namespace nearkv::test
