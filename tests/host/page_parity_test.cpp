// cpu: builds the pages that the model builds, to the last byte: what one has written, any other
// device can read, scrub and transcode.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/page_source.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kTokens = 2 * NKV_PAGE_TOKENS;

/// All that APPEND left of the pages and their entries.
std::vector<std::byte> appended(const std::string& uri, const PageSource& source) {
  BenchDevice bench(uri);
  EXPECT_EQ(append(&bench, source).completion.status, NKV_STATUS_OK) << uri;
  return {bench.allocated().begin(), bench.allocated().end()};
}

void expect_alike(const PageSource& source) {
  SCOPED_TRACE(testing::Message() << "dtype " << int{source.dtype} << " forms "
                                  << int{source.k_form} << " " << int{source.v_form} << " dims "
                                  << source.head_dim << " " << source.value_dim);
  const auto cpu = appended("cpu:?memory=16MiB&threads=2", source);
  const auto model = appended("model:?memory=16MiB", source);
  const auto [mine, theirs] = std::ranges::mismatch(cpu, model);
  EXPECT_EQ(mine, cpu.end()) << "first difference at byte " << mine - cpu.begin();
}

TEST(PageParity, OfRealisticRowsInEveryForm) {
  for (const Shape shape :
       {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kDuplicates, Shape::kSparse}) {
    for (const std::size_t dim : {64U, 80U, 256U}) {
      const KvData data = make_kv(shape, kTokens, dim, dim - 16, 1);
      for (const std::uint8_t k_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4}) {
        for (const std::uint8_t v_form :
             {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_NONE}) {
          expect_alike(page_source(data, k_form, v_form));
        }
      }
    }
  }
}

TEST(PageParity, OfArbitraryPatternsInEveryType) {
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const bool key_scales : {false, true}) {
      expect_alike(random_source(dtype, 128, 64, key_scales, kTokens, 2));
    }
  }
}

// Few elements that are not finite, in channels that lie far from zero.
TEST(PageParity, OfChannelsWhereZeroWidensTheRange) {
  KvData data = make_kv(Shape::kGaussian, kTokens, 64, 64, 3);
  for (std::uint16_t& bits : data.keys) bits = static_cast<std::uint16_t>(0x4300 | (bits & 0x3F));
  for (std::size_t i = 5; i < data.keys.size(); i += 411) {
    data.keys[i] = i % 2 != 0 ? 0x7F80 : 0xFFC1;
  }
  expect_alike(page_source(data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW));
}

}  // namespace
}  // namespace nearkv::test
