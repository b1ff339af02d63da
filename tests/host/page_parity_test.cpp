// cpu: builds the pages that the model builds, to the last byte: what one has written, any other
// device can read, scrub and transcode.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/bench_device.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kTokens = 2 * NKV_PAGE_TOKENS;

/// Rows in bytes and how they are to be stored.
struct Source {
  std::uint8_t dtype = NKV_DTYPE_BF16;
  std::uint8_t k_form = NKV_ROW_FORM_RAW;
  std::uint8_t v_form = NKV_ROW_FORM_RAW;
  std::uint16_t head_dim = 0;
  std::uint16_t value_dim = 0;
  bool key_scales = false;
  std::vector<std::byte> keys;
  std::vector<std::byte> values;

  [[nodiscard]] std::uint32_t key_stride() const {
    return nkv_element_bytes(dtype) * head_dim + (key_scales ? 4U : 0U);
  }
  [[nodiscard]] std::uint32_t value_stride() const { return nkv_element_bytes(dtype) * value_dim; }
};

/// Appends the source and returns the completion's status, the entries and all page bytes.
std::vector<std::byte> appended(const std::string& uri, const Source& source, int* status) {
  BenchDevice bench(uri);
  nkv_page_shape shape{};
  shape.k_form = source.k_form;
  shape.v_form = source.v_form;
  shape.dtype = source.dtype;
  shape.flags = source.key_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0;
  shape.head_dim = source.head_dim;
  shape.value_dim = source.value_dim;
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::vector<nkv_page_entry> entries(kTokens / NKV_PAGE_TOKENS);
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(bench.allocate(layout.total_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = 3;
  }
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.flags = source.key_scales ? NKV_APPEND_FLAG_KEY_SCALES : 0;
  command.head_dim = source.head_dim;
  command.value_dim = source.value_dim;
  command.tokens = kTokens;
  command.first_token = 640;
  command.page_list = bench.store(std::span<const nkv_page_entry>(entries));
  const std::uint64_t pages_end = bench.allocated().size();
  command.keys = bench.store(std::span<const std::byte>(source.keys));
  command.values = source.v_form == NKV_ROW_FORM_NONE
                       ? 0
                       : bench.store(std::span<const std::byte>(source.values));
  command.sequence_id = 77;
  command.layer = 5;
  command.kv_head = 6;
  command.key_stride = source.key_stride();
  command.value_stride = source.value_stride();
  command.dtype = source.dtype;
  command.k_form = source.k_form;
  command.v_form = source.v_form;
  *status = bench.run(command).status;
  const auto pages = bench.allocated().first(pages_end);
  return {pages.begin(), pages.end()};
}

void expect_alike(const Source& source) {
  SCOPED_TRACE(testing::Message() << "dtype " << int{source.dtype} << " forms "
                                  << int{source.k_form} << int{source.v_form} << " dims "
                                  << source.head_dim << " " << source.value_dim);
  int cpu_status = 0;
  int model_status = 0;
  const auto cpu = appended("cpu:?memory=16MiB&threads=2", source, &cpu_status);
  const auto model = appended("model:?memory=16MiB", source, &model_status);
  ASSERT_EQ(cpu_status, NKV_STATUS_OK);
  ASSERT_EQ(model_status, NKV_STATUS_OK);
  const auto [mine, theirs] = std::ranges::mismatch(cpu, model);
  EXPECT_EQ(mine, cpu.end()) << "first difference at byte " << mine - cpu.begin();
}

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

TEST(PageParity, OfRealisticRowsInEveryForm) {
  for (const Shape shape : {Shape::kGaussian, Shape::kBiased, Shape::kTopics, Shape::kOutliers,
                            Shape::kDuplicates, Shape::kSparse}) {
    for (const std::uint16_t dim : {std::uint16_t{64}, std::uint16_t{80}, std::uint16_t{256}}) {
      const KvData data = make_kv(shape, kTokens, dim, dim - 16U, 1);
      for (const std::uint8_t v_form : {NKV_ROW_FORM_RAW, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_NONE}) {
        Source source;
        source.k_form = shape == Shape::kOutliers ? std::uint8_t{NKV_ROW_FORM_RAW} : v_form % 2;
        source.v_form = v_form == NKV_ROW_FORM_DELTA4 && shape == Shape::kOutliers
                            ? std::uint8_t{NKV_ROW_FORM_RAW}
                            : v_form;
        source.head_dim = dim;
        source.value_dim = static_cast<std::uint16_t>(dim - 16);
        source.keys = bytes_of(data.keys);
        source.values = bytes_of(data.values);
        expect_alike(source);
      }
    }
  }
}

// Any bytes are rows of RAW form: subnormals, infinities and NaN among them, in every channel.
TEST(PageParity, OfArbitraryPatternsInEveryType) {
  std::mt19937 random(2);
  for (const std::uint8_t dtype :
       {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8}) {
    for (const bool key_scales : {false, true}) {
      Source source;
      source.dtype = dtype;
      source.head_dim = 128;
      source.value_dim = 64;
      source.key_scales = key_scales;
      source.keys.resize(kTokens * source.key_stride());
      source.values.resize(kTokens * source.value_stride());
      for (std::byte& byte : source.keys) byte = static_cast<std::byte>(random());
      for (std::byte& byte : source.values) byte = static_cast<std::byte>(random());
      expect_alike(source);
    }
  }
}

// Few elements that are not finite, in channels that lie far from zero.
TEST(PageParity, OfChannelsWhereZeroWidensTheRange) {
  KvData data = make_kv(Shape::kGaussian, kTokens, 64, 64, 3);
  for (std::uint16_t& bits : data.keys) bits = static_cast<std::uint16_t>(0x4300 | (bits & 0x3F));
  for (std::size_t i = 5; i < data.keys.size(); i += 411)
    data.keys[i] = i % 2 != 0 ? 0x7F80 : 0xFFC1;
  Source source;
  source.head_dim = 64;
  source.value_dim = 64;
  source.keys = bytes_of(data.keys);
  source.values = bytes_of(data.values);
  expect_alike(source);
}

}  // namespace
}  // namespace nearkv::test
