// Pages that are finished elsewhere become a sequence's: the same tokens, or nothing changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "nearkv.h"
#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/finished_pages.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kSequence = 7;
constexpr std::uint32_t kTokens = 320;
constexpr std::size_t kPagesOfHead = kTokens / NKV_PAGE_TOKENS;

/// What another machine has made of rows, from token `first` of theirs and of the layer on.
Pages pages_of(const LayerRows& rows, std::uint16_t layer, std::uint32_t first,
               const Pool::Options& options = small_pool()) {
  return finished_pages(options, kSequence, layer, first, LayerRows::host(rows.keys, first),
                        LayerRows::host(rows.values, first), kTokens - first);
}

class PoolPagesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::unique_ptr<Device> device;
    ASSERT_EQ(open_device(GetParam(), &device), Status::kOk);
    device_ = std::move(device);
    create(small_pool());
    pages_ = pages_of(rows_, 1, 0);
  }

  void create(const Pool::Options& options) {
    pool_.reset();
    std::string reason;
    ASSERT_EQ(Pool::create(device_, options, &pool_, &reason), Status::kOk) << reason;
    ASSERT_EQ(pool_->create_sequence(kSequence), Status::kOk);
  }

  Status append_pages(const Pages& pages, std::uint16_t layer = 1) {
    return pool_->append_pages(kSequence, layer, spans_of(pages));
  }

  std::uint32_t tokens_of(std::uint16_t layer) {
    std::uint32_t tokens = 0;
    EXPECT_EQ(pool_->tokens(kSequence, layer, &tokens), Status::kOk);
    return tokens;
  }

  const LayerRows rows_{kTokens, 1};
  Pages pages_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
};

TEST_P(PoolPagesTest, AreTheTokensThatTheyWereMadeOf) {
  ASSERT_EQ(append_pages(pages_), Status::kOk) << pool_->last_error();
  EXPECT_EQ(tokens_of(1), kTokens);
  EXPECT_EQ(tokens_of(0), 0U);
  EXPECT_TRUE(holds(pool_.get(), kSequence, 1, 0, rows_));
  std::uint64_t scrubbed = 0;
  EXPECT_EQ(pool_->scrub(kSequence, &scrubbed), Status::kOk);
  EXPECT_EQ(scrubbed, pages_.size());
}

TEST_P(PoolPagesTest, GoBehindWhatIsThereAndRowsBehindThem) {
  ASSERT_EQ(append(pool_.get(), kSequence, 0, rows_, 0, 128), Status::kOk);
  ASSERT_EQ(append_pages(pages_of(rows_, 0, 128), 0), Status::kOk) << pool_->last_error();
  EXPECT_EQ(tokens_of(0), kTokens);
  EXPECT_TRUE(holds(pool_.get(), kSequence, 0, 0, rows_));
  ASSERT_EQ(append(pool_.get(), kSequence, 0, rows_, 0, 64), Status::kOk);
  EXPECT_EQ(tokens_of(0), kTokens + 64);
}

TEST_P(PoolPagesTest, ComeInSeveralRunsWhereTheStagingAreaIsSmall) {
  Pool::Options options = small_pool();
  options.staging_bytes = 128UL << 10;
  create(options);
  ASSERT_EQ(append_pages(pages_), Status::kOk) << pool_->last_error();
  EXPECT_TRUE(holds(pool_.get(), kSequence, 1, 0, rows_));
}

TEST_P(PoolPagesTest, AreFoundAfterARestart) {
  ASSERT_EQ(append_pages(pages_), Status::kOk) << pool_->last_error();
  pool_.reset();
  ASSERT_EQ(Pool::open(device_, small_pool(), &pool_), Status::kOk);
  EXPECT_EQ(pool_->usage().damaged_pages, 0U);
  EXPECT_TRUE(holds(pool_.get(), kSequence, 1, 0, rows_));
}

TEST_P(PoolPagesTest, MayBeRawInAPoolOfTheCompactForm) {
  Pool::Options raw = small_pool();
  raw.shape.k_form = raw.shape.v_form = NKV_ROW_FORM_RAW;
  Pages mixed = pages_;
  const Pages others = pages_of(rows_, 1, 0, raw);
  mixed[1] = others[1];
  mixed[kPagesOfHead + 3] = others[kPagesOfHead + 3];
  ASSERT_NE(mixed[0].size(), mixed[1].size());
  ASSERT_EQ(append_pages(mixed), Status::kOk) << pool_->last_error();
  EXPECT_TRUE(holds(pool_.get(), kSequence, 1, 0, rows_));
}

TEST_P(PoolPagesTest, ThatBelongElsewhereAreNamedAndNothingChanges) {
  const std::uint64_t used = pool_->usage().pages;
  const auto refused = [&](const Pages& pages, std::uint16_t layer, const char* named) {
    EXPECT_EQ(append_pages(pages, layer), Status::kBadPage);
    EXPECT_NE(pool_->last_error().find(named), std::string::npos) << pool_->last_error();
    EXPECT_EQ(pool_->usage().pages, used);
    EXPECT_EQ(tokens_of(1), 0U);
  };
  refused(pages_, 0, "page 0: wanted");  // Of another layer.
  Pages swapped = pages_;
  std::swap(swapped[2], swapped[3]);
  refused(swapped, 1, "page 2: wanted");
  std::swap(swapped[2], swapped[3]);
  std::swap(swapped[4], swapped[kPagesOfHead]);  // And heads.
  refused(swapped, 1, "page 4: wanted");
  refused(pages_of(rows_, 1, 64), 1, "page 0: wanted");  // The first one is missing.
  Pages cut = pages_;
  cut[6].resize(cut[6].size() - NKV_PAGE_GRAIN_BYTES);
  refused(cut, 1, "page 6: it has");
  Pages headless = pages_;
  headless[5][40] ^= std::byte{1};
  refused(headless, 1, "page 5: wanted");
  Pool::Options narrow = small_pool();
  narrow.shape.v_form = NKV_ROW_FORM_NONE;
  create(narrow);
  EXPECT_EQ(append_pages(pages_), Status::kBadPage);
}

TEST_P(PoolPagesTest, OfOtherRowFormsAreRefusedWhateverTheirSize) {
  Pool::Options raw = small_pool();
  raw.shape.k_form = raw.shape.v_form = NKV_ROW_FORM_RAW;
  create(raw);
  const std::size_t raw_bytes = pages_of(rows_, 1, 0, raw).front().size();
  Pages padded = pages_;
  for (std::vector<std::byte>& page : padded) page.resize(raw_bytes);
  EXPECT_EQ(append_pages(padded), Status::kBadPage);

  Pool::Options compact_values = raw;
  compact_values.shape.v_form = NKV_ROW_FORM_DELTA4;
  create(compact_values);
  Pool::Options compact_keys = raw;
  compact_keys.shape.k_form = NKV_ROW_FORM_DELTA4;
  EXPECT_EQ(append_pages(pages_of(rows_, 1, 0, compact_keys)), Status::kBadPage);
  EXPECT_EQ(tokens_of(1), 0U);
  ASSERT_EQ(append_pages(pages_of(rows_, 1, 0, compact_values)), Status::kOk)
      << pool_->last_error();
}

TEST_P(PoolPagesTest, ArePaddedByNothing) {
  Pool::Options raw = small_pool();
  raw.shape.k_form = raw.shape.v_form = NKV_ROW_FORM_RAW;
  const std::size_t raw_bytes = pages_of(rows_, 1, 0, raw).front().size();
  Pages padded = pages_;
  padded[2].resize(raw_bytes);
  EXPECT_EQ(append_pages(padded), Status::kBadPage);
  EXPECT_NE(pool_->last_error().find("page 2: wanted"), std::string::npos) << pool_->last_error();
}

TEST_P(PoolPagesTest, OfAnotherSequenceAreNoneOfThisOne) {
  ASSERT_EQ(pool_->create_sequence(8), Status::kOk);
  EXPECT_EQ(pool_->append_pages(8, 1, spans_of(pages_)), Status::kBadPage);
  EXPECT_EQ(pool_->append_pages(9, 1, spans_of(pages_)), Status::kNotFound);
  EXPECT_EQ(pool_->append_pages(kSequence, kLayers, spans_of(pages_)), Status::kNotFound);
}

TEST_P(PoolPagesTest, OneDamagedArrayAndNothingChanges) {
  const std::uint64_t used = pool_->usage().pages;
  for (const std::size_t number : {std::size_t{0}, pages_.size() - 1}) {
    Pages damaged = pages_;
    damaged[number][NKV_PAGE_HEADER_BYTES + 100] ^= std::byte{0x10};
    EXPECT_EQ(append_pages(damaged), Status::kCorrupt);
    EXPECT_NE(pool_->last_error().find("detail " + std::to_string(number)), std::string::npos)
        << pool_->last_error();
    EXPECT_EQ(pool_->usage().pages, used);
    EXPECT_EQ(tokens_of(1), 0U);
  }
  ASSERT_EQ(append_pages(pages_), Status::kOk) << pool_->last_error();
  EXPECT_TRUE(holds(pool_.get(), kSequence, 1, 0, rows_));
}

TEST_P(PoolPagesTest, ForSomeHeadsAloneAreRefused) {
  Pages odd = pages_;
  odd.pop_back();
  EXPECT_EQ(append_pages(odd), Status::kBadArgument);
  EXPECT_EQ(append_pages({}), Status::kOk);
  EXPECT_EQ(tokens_of(1), 0U);
}

TEST_P(PoolPagesTest, BeyondItsRoomChangeNothing) {
  const std::uint64_t bytes = device_->memory().size();
  Pool::Options options = small_pool();
  options.memory_bytes = std::min<std::uint64_t>(bytes, 4UL << 20);
  create(options);
  while (append(pool_.get(), kSequence, 0, rows_, 0, kTokens) == Status::kOk) {
  }
  const std::uint64_t used = pool_->usage().pages;
  ASSERT_EQ(append_pages(pages_), Status::kPoolFull);
  EXPECT_EQ(pool_->usage().pages, used);
  EXPECT_EQ(tokens_of(1), 0U);
}

TEST(PoolPagesOfCTest, AreTakenUpAndRefusedByErrno) {
  nearkv_device* device = nullptr;
  ASSERT_EQ(nearkv_device_open("cpu:?memory=16MiB", &device, nullptr, 0), 0);
  nearkv_pool_options options{};
  nearkv_pool_options_init(&options);
  options.shape.layers = kLayers;
  options.shape.kv_heads = kHeads;
  options.shape.head_dim = options.shape.value_dim = kDim;
  nearkv_pool* pool = nullptr;
  ASSERT_EQ(nearkv_pool_create(device, &options, &pool, nullptr, 0), 0);
  ASSERT_EQ(nearkv_create_sequence(pool, kSequence), 0);
  const LayerRows rows(kTokens, 1);
  Pages pages = pages_of(rows, 1, 0);
  std::vector<const void*> places;
  std::vector<std::size_t> bytes;
  for (const std::vector<std::byte>& page : pages) {
    places.push_back(page.data());
    bytes.push_back(page.size());
  }
  const auto append = [&] {
    return nearkv_append_pages(pool, kSequence, 1, places.data(), bytes.data(), places.size());
  };
  pages[3].back() ^= std::byte{1};
  EXPECT_EQ(append(), -EBADMSG);
  pages[3].back() ^= std::byte{1};
  std::swap(places[0], places[1]);
  EXPECT_EQ(append(), -EINVAL);
  std::swap(places[0], places[1]);
  ASSERT_EQ(append(), 0);
  std::vector<std::uint16_t> keys(kTokens * kDim);
  EXPECT_EQ(nearkv_read(pool, kSequence, 1, 1, 0, kTokens, keys.data(), nullptr), 0);
  EXPECT_EQ(keys, rows.heads[1].keys);
  nearkv_pool_close(pool);
  nearkv_device_close(device);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolPagesTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
