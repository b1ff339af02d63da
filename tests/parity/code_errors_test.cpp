// Codes that are damaged or forged: the same status and detail, and nothing is read beyond them.
#include <map>
#include <string>

#include "device_pair.hpp"
#include "page.hpp"
#include "sequences.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kPages = 3;
constexpr std::uint8_t kRows = 2;

/// Pages with codes on both devices, which compare all that they read with its checksums.
class CodeErrorParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!offers_feature(pair_.subject().device(), NKV_FEATURE_CODES)) {
      GTEST_SKIP() << has_no("codes");
    }
    pair_.allocate(4096);
    const ListShape shape{.head_dim = 96, .value_dim = 64, .codes = true};
    list_ = append_to_both(pair_, shape, kPages, Content::kNormal, random_);
    ASSERT_EQ(list_.completion.status, NKV_STATUS_OK);
    result_ = pair_.allocate(std::uint64_t{list_.tokens} * 2 * (96 + 64) + 2 * NKV_BURST_BYTES);
    nkv_page_entry entries[kPages]{};
    for (nkv_page_entry& entry : entries) {
      entry.page =
          static_cast<std::uint32_t>(pair_.allocate(list_.page_bytes) / NKV_PAGE_GRAIN_BYTES);
    }
    places_ = pair_.store(std::span<const nkv_page_entry>(entries));
    sizes_ = pair_.allocate(kPages * sizeof(std::uint32_t));
    query_ = store_rows(pair_, random_queries(list_, NKV_DTYPE_BF16, kRows, random_));
    const nkv_page_shape page = model::shape_of(*pair_.model().at<nkv_page_header>(page_at(1)));
    nkv_lay_out_page(&page, &layout_);
  }

  [[nodiscard]] std::uint64_t page_at(std::size_t page) { return list_.page_at(pair_, page); }

  template <typename T, typename Change>
  void change(std::uint64_t address, const Change& apply) {
    apply(pair_.subject().at<T>(address));
    apply(pair_.model().at<T>(address));
  }

  /// All commands that look at codes.
  void expect_same_of_all() {
    nkv_read_command read{};
    read.opcode = NKV_OPCODE_READ;
    read.flags = NKV_READ_FLAG_CODES;
    read.page_list = list_.page_list;
    read.count = list_.tokens;
    read.result = result_;
    for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES, NKV_TENSOR_BOTH}) {
      read.tensor = tensor;
      for (read.planes = 1; read.planes <= NKV_KEY_CODE_PLANES; ++read.planes) expect_same(read);
    }
    nkv_pages_command pages{};
    pages.source = list_.page_list;
    pages.count = kPages;
    pages.opcode = NKV_OPCODE_SCRUB;
    expect_same(pages);
    pages.opcode = NKV_OPCODE_TRANSCODE;
    pages.codec = NKV_CODEC_PLANES_LZ4;
    pages.slot_bytes = list_.page_bytes;
    pages.destination = places_;
    pages.result = sizes_;
    expect_same(pages);
    expect_same_of_queries();
  }

  /// Those that answer a query.
  void expect_same_of_queries() {
    nkv_attend_command attend{};
    attend.opcode = NKV_OPCODE_ATTEND;
    attend.head_dim = list_.shape.head_dim;
    attend.value_dim = list_.shape.value_dim;
    attend.tokens = list_.tokens;
    attend.page_list = list_.page_list;
    attend.query = query_;
    attend.query_dtype = NKV_DTYPE_BF16;
    attend.group = kRows;
    attend.result = result_;
    attend.scale = .1F;
    attend.error = .2F;
    attend.top_k = 20;
    for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      attend.mode = mode;
      expect_same(attend);
    }
    attend.byte_cap = 100;
    expect_same(attend);
    nkv_topk_command topk{};
    topk.opcode = NKV_OPCODE_TOPK;
    topk.mode = NKV_SELECT_STATISTICAL;
    topk.head_dim = list_.shape.head_dim;
    topk.tokens = list_.tokens;
    topk.page_list = list_.page_list;
    topk.query = query_;
    topk.query_dtype = NKV_DTYPE_BF16;
    topk.group = kRows;
    topk.result = result_;
    topk.scale = .1F;
    topk.top_k = 9;
    expect_same(topk);
  }

  void expect_seen(int status, unsigned times) { EXPECT_GT(statuses_[status], times) << status; }

  DevicePair pair_{comparing_always(GetParam()), "2MiB"};
  Random random_ = case_random(17);
  ListOnBoth list_;
  nkv_page_layout layout_{};

 private:
  template <typename Command>
  void expect_same(const Command& command) {
    const DevicePair::Completions done = pair_.run(command);
    EXPECT_EQ(describe(done.subject), describe(done.model));
    ++statuses_[done.model.status];
  }

  std::uint64_t result_ = 0;
  std::uint64_t places_ = 0;
  std::uint64_t sizes_ = 0;
  std::uint64_t query_ = 0;
  std::map<int, unsigned> statuses_;
};

TEST_P(CodeErrorParityTest, SignSetsThatAreNone) {
  for (unsigned set = 0; set < 256; set += set < 18 ? 1 : 79) {
    SCOPED_TRACE("sign set " + std::to_string(set));
    change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) {
      header->sign_set = static_cast<std::uint8_t>(set);
      model::seal(*header);
    });
    expect_same_of_all();
    if (HasFailure()) break;
  }
  expect_seen(NKV_STATUS_OK, 100);
  expect_seen(NKV_STATUS_BAD_PAGE, 30);
}

TEST_P(CodeErrorParityTest, AnyNumberOfTheHeader) {
  constexpr std::size_t kFirst = offsetof(nkv_page_header, k_mean_power);
  constexpr std::size_t kLast = offsetof(nkv_page_header, crc_k_gains) + 3;
  for (unsigned round = 0; round < 90 && !HasFailure(); ++round) {
    const std::size_t at = pick(random_, kFirst, kLast);
    const auto byte = static_cast<std::byte>(random_());
    SCOPED_TRACE("byte " + std::to_string(at) + " becomes " +
                 std::to_string(std::to_integer<int>(byte)));
    nkv_page_header before{};
    change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) {
      before = *header;
      reinterpret_cast<std::byte*>(header)[at] = byte;
      if (round % 4 != 0) model::seal(*header);
    });
    expect_same_of_all();
    change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) { *header = before; });
  }
  expect_seen(NKV_STATUS_OK, 100);
  expect_seen(NKV_STATUS_CORRUPT, 100);
}

TEST_P(CodeErrorParityTest, AnyBitOfTheCodes) {
  for (int array = NKV_PAGE_ARRAY_CODE_SUMMARY; array < NKV_PAGE_ARRAY_COUNT; ++array) {
    ASSERT_GT(layout_.bytes[array], 0U);
    for (unsigned round = 0; round < 8 && !HasFailure(); ++round) {
      const std::uint64_t at =
          page_at(1) + layout_.offset[array] + pick(random_, 0, layout_.bytes[array] - 1);
      const auto flip = [&](std::byte* byte) { *byte ^= static_cast<std::byte>(1U << round); };
      SCOPED_TRACE("array " + std::to_string(array) + ", bit " + std::to_string(round));
      change<std::byte>(at, flip);
      expect_same_of_all();
      change<std::byte>(at, flip);
    }
  }
  expect_seen(NKV_STATUS_OK, 100);
  expect_seen(NKV_STATUS_CORRUPT, 100);
}

INSTANTIATE_TEST_SUITE_P(Devices, CodeErrorParityTest, testing::ValuesIn(subject_uris()),
                         device_name);

}  // namespace
}  // namespace nearkv::test
