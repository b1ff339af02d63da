// Pages with codes that are damaged or forged, and gains that lie nowhere: the same status and
// detail, nothing is read beyond them, and the device goes on.
#include <algorithm>
#include <array>
#include <cstring>
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
constexpr std::uint64_t kRoom = 1 << 19;  // Of a copy, whatever its header says.

/// From one round to the next that is tried: NEARKV_TEST_EVERY.
unsigned every() { return static_cast<unsigned>(test_every()); }

/// Pages with codes on both devices, which compare all that they read with its checksums. What is
/// done by codes is asked of devices that do it.
class CodeErrorParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!offers_feature(pair_.subject().device(), NKV_FEATURE_CODE_PAGES)) {
      GTEST_SKIP() << has_no("codes");
    }
    by_codes_ = offers_feature(pair_.subject().device(), NKV_FEATURE_CODES);
    pair_.allocate(4096);
    const ListShape shape{.head_dim = 96, .value_dim = 64, .codes = true};
    list_ = append_to_both(pair_, shape, kPages, Content::kNormal, random_);
    ASSERT_EQ(list_.completion.status, NKV_STATUS_OK);
    result_ = pair_.allocate(std::uint64_t{list_.tokens} * 2 * (96 + 64) + 2 * NKV_BURST_BYTES);
    nkv_page_entry entries[kPages]{};
    for (nkv_page_entry& entry : entries) {
      entry.page = static_cast<std::uint32_t>(pair_.allocate(kRoom) / NKV_PAGE_GRAIN_BYTES);
    }
    places_ = pair_.store(std::span<const nkv_page_entry>(entries));
    sizes_ = pair_.allocate(kPages * sizeof(std::uint32_t));
    const std::array<std::uint32_t, kPages> ids{70, 0, 191};
    ids_ = pair_.store(std::span<const std::uint32_t>(ids));
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

  /// All commands that such pages may be asked with.
  void expect_same_of_all() {
    expect_same_of_rows();
    if (by_codes_) expect_same_of_codes();
  }

  /// Those that use a page's rows, or all that it holds.
  void expect_same_of_rows() {
    nkv_pages_command pages{};
    pages.source = list_.page_list;
    pages.count = kPages;
    pages.opcode = NKV_OPCODE_SCRUB;
    expect_same(pages);
    pages.opcode = NKV_OPCODE_COPY;
    pages.destination = places_;
    expect_same(pages);
    expect_same(read(NKV_TENSOR_BOTH));
    nkv_gather_command gather{};
    gather.opcode = NKV_OPCODE_GATHER;
    gather.tensor = NKV_TENSOR_BOTH;
    gather.tokens = list_.tokens;
    gather.count = kPages;
    gather.ids = ids_;
    gather.page_list = list_.page_list;
    gather.result = result_;
    expect_same(gather);
    expect_same(attend(NKV_ATTEND_MODE_DENSE));
    expect_same(topk(NKV_SELECT_FULL));
  }

  void expect_same_of_codes() {
    for (const std::uint8_t tensor : {NKV_TENSOR_KEYS, NKV_TENSOR_VALUES, NKV_TENSOR_BOTH}) {
      nkv_read_command coded = read(tensor);
      coded.flags = NKV_READ_FLAG_CODES;
      for (coded.planes = 1; coded.planes <= NKV_KEY_CODE_PLANES; ++coded.planes) {
        expect_same(coded);
      }
    }
    nkv_pages_command pages{};
    pages.source = list_.page_list;
    pages.count = kPages;
    pages.opcode = NKV_OPCODE_TRANSCODE;
    pages.codec = NKV_CODEC_PLANES_LZ4;
    pages.slot_bytes = list_.page_bytes;
    pages.destination = places_;
    pages.result = sizes_;
    expect_same(pages);
    for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      expect_same(attend(mode));
    }
    nkv_attend_command capped = attend(NKV_ATTEND_MODE_BOUNDED);
    capped.byte_cap = 100;
    expect_same(capped);
    expect_same(topk(NKV_SELECT_STATISTICAL));
  }

  [[nodiscard]] nkv_read_command read(std::uint8_t tensor) const {
    nkv_read_command read{};
    read.opcode = NKV_OPCODE_READ;
    read.tensor = tensor;
    read.page_list = list_.page_list;
    read.count = list_.tokens;
    read.result = result_;
    return read;
  }

  [[nodiscard]] nkv_attend_command attend(std::uint8_t mode) const {
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
    attend.mode = mode;
    return attend;
  }

  [[nodiscard]] nkv_topk_command topk(std::uint8_t mode) const {
    nkv_topk_command topk{};
    topk.opcode = NKV_OPCODE_TOPK;
    topk.mode = mode;
    topk.head_dim = list_.shape.head_dim;
    topk.tokens = list_.tokens;
    topk.page_list = list_.page_list;
    topk.query = query_;
    topk.query_dtype = NKV_DTYPE_BF16;
    topk.group = kRows;
    topk.result = result_;
    topk.scale = .1F;
    topk.top_k = 9;
    return topk;
  }

  /// A header that lies about its arrays gives nonsense wherever it is believed, at any cost.
  template <typename Command>
  nkv_completion expect_same(const Command& command) {
    const DevicePair::Completions done = pair_.run(command);
    if (is_forged_ && done.model.status == NKV_STATUS_OK) {
      EXPECT_EQ(done.subject.status, done.model.status) << describe(done.subject);
    } else {
      EXPECT_EQ(describe(done.subject), describe(done.model));
    }
    EXPECT_EQ(pair_.subject().device().read_csr(NKV_REG_DEVICE_STATUS),
              NKV_REG_DEVICE_STATUS_READY_MASK);
    ++statuses_[done.model.status];
    return done.model;
  }

  /// That more commands than so many ended so, where all was tried.
  void expect_seen(int status, unsigned times) {
    EXPECT_TRUE(every() > 1 || statuses_[status] > times) << status;
  }

  DevicePair pair_{comparing_always(GetParam()), "4MiB"};
  Random random_ = case_random(17);
  ListOnBoth list_;
  nkv_page_layout layout_{};
  bool by_codes_ = false;
  bool is_forged_ = false;

 private:
  std::uint64_t result_ = 0;
  std::uint64_t ids_ = 0;
  std::uint64_t places_ = 0;
  std::uint64_t sizes_ = 0;
  std::uint64_t query_ = 0;
  std::map<int, unsigned> statuses_;
};

TEST_P(CodeErrorParityTest, SignSetsThatAreNone) {
  if (!by_codes_) GTEST_SKIP() << has_no("modes that look at sign sets");
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
  for (unsigned round = 0; round < 90 && !HasFailure(); round += every()) {
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
    for (unsigned round = static_cast<unsigned>(array) % every(); round < 8 && !HasFailure();
         round += every()) {
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
  expect_seen(NKV_STATUS_CORRUPT, by_codes_ ? 100 : 50);
}

// Whatever a header says of its arrays, of which some would end behind all memory.
TEST_P(CodeErrorParityTest, AnyShapeUnderItsChecksum) {
  constexpr std::array<std::uint32_t, 12> kNumbers{
      0, 1, 16, 128, 144, 576, 592, 1008, 0x7FF0, 0xFFF0, 0x7FFFFF00, 0xFFFFFFFF};
  is_forged_ = true;
  const auto number = [this, &kNumbers] { return kNumbers[pick(random_, 0, kNumbers.size() - 1)]; };
  for (unsigned round = 0; round < 240 && !HasFailure(); round += every()) {
    nkv_page_header forged = *pair_.model().at<nkv_page_header>(page_at(1));
    const nkv_page_header before = forged;
    for (unsigned field = pick(random_, 1, 2); field > 0; --field) {
      switch (pick(random_, 0, 7)) {
        case 0:
          forged.head_dim = static_cast<std::uint16_t>(number());
          break;
        case 1:
          forged.value_dim = static_cast<std::uint16_t>(number());
          break;
        case 2:
          forged.k_form = static_cast<std::uint8_t>(pick(random_, 0, 3));
          break;
        case 3:
          forged.v_form = static_cast<std::uint8_t>(pick(random_, 0, 3));
          break;
        case 4:
          forged.dtype = static_cast<std::uint8_t>(pick(random_, 0, 6));
          break;
        case 5:
          forged.flags = static_cast<std::uint8_t>(random_() % 8 == 0 ? random_() : 3);
          break;
        case 6:
          forged.k_exceptions = static_cast<std::uint8_t>(number());
          break;
        default:
          forged.codec = static_cast<std::uint8_t>(pick(random_, 1, 8));
          forged.payload_bytes = number();
      }
    }
    model::seal(forged);
    SCOPED_TRACE("round " + std::to_string(round) + ", dims " + std::to_string(forged.head_dim) +
                 " " + std::to_string(forged.value_dim) + ", forms " +
                 std::to_string(forged.k_form) + " " + std::to_string(forged.v_form) + ", codec " +
                 std::to_string(forged.codec) + ", flags " + std::to_string(forged.flags));
    change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) { *header = forged; });
    expect_same_of_rows();
    change<nkv_page_header>(page_at(1), [&](nkv_page_header* header) { *header = before; });
  }
  for (const int status : {NKV_STATUS_BAD_PAGE, NKV_STATUS_COLD_PAGE, NKV_STATUS_CORRUPT}) {
    expect_seen(status, 20);
  }
}

// Gains end with the window, beyond it, and behind the last address that there is.
TEST_P(CodeErrorParityTest, GainsThatLieInNoMemory) {
  constexpr std::uint16_t kDim = 48;
  ListOnBoth list;
  const ListShape shape{.head_dim = kDim, .value_dim = kDim, .codes = true};
  nkv_append_command command =
      prepare_append(pair_, shape, kPages, Content::kNormal, random_, &list);
  constexpr std::uint64_t kEntriesBytes = kPages * sizeof(nkv_page_entry);
  const std::uint64_t end = pair_.model().window().size();
  const std::uint64_t last = end - kEntriesBytes - kDim;
  for (BenchDevice* const bench : {&pair_.subject(), &pair_.model()}) {
    std::ranges::copy(bench->window().subspan(command.page_list, kEntriesBytes + kDim),
                      bench->window().subspan(last).begin());
  }
  for (const std::uint64_t place :
       {last, last + 8, end - kEntriesBytes, end - 8, end, ~std::uint64_t{7},
        ~std::uint64_t{7} - kEntriesBytes, ~std::uint64_t{7} - kEntriesBytes - kDim}) {
    SCOPED_TRACE("page list at " + std::to_string(place) + " of " + std::to_string(end));
    command.page_list = place;
    EXPECT_EQ(expect_same(command).status,
              place == last ? NKV_STATUS_OK : NKV_STATUS_ADDRESS_FAULT);
    EXPECT_TRUE(std::ranges::equal(pair_.subject().window(), pair_.model().window()));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CodeErrorParityTest, testing::ValuesIn(subject_uris()),
                         device_name);

}  // namespace
}  // namespace nearkv::test
