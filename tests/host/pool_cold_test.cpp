// Queries over pages of which some are compressed: left out, or decoded for one call; by page, and
// across forks and restarts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <limits>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/kv_data.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint16_t kDim = 64;
constexpr std::uint32_t kPages = 6;
constexpr std::size_t kRows = 2;
constexpr std::uint16_t kBest = 40;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

using Pages = std::vector<std::uint32_t>;

Pool::Options one_head() {
  Pool::Options options;
  options.shape.head_dim = kDim;
  options.shape.value_dim = kDim;
  options.max_sequences = 16;
  // Decoded pages come in several runs.
  options.staging_bytes = 256UL << 10;
  return options;
}

/// Page `number` of the data behind a sequence's last one.
Status append_page(Pool* pool, std::uint64_t sequence, const KvData& data, std::size_t number) {
  const auto rows = [&](const std::vector<std::uint16_t>& from) {
    return HostRows{
        reinterpret_cast<const std::byte*>(from.data() + number * NKV_PAGE_TOKENS * kDim),
        kDim * 2UL, 0};
  };
  return pool->append(sequence, 0, rows(data.keys), rows(data.values), NKV_PAGE_TOKENS);
}

struct Attended {
  Status status = Status::kOk;
  std::vector<float> output = std::vector<float>(kRows * kDim);
  std::vector<float> lse = std::vector<float>(kRows);
};

Attended attend(Pool* pool, std::uint64_t sequence, const KvData& data, ColdPages cold,
                std::uint32_t window = 0) {
  const std::vector<std::uint16_t> queries = make_queries(data, kRows, 2.0, 17);
  Attended attended;
  AttendRequest request;
  request.sequence = sequence;
  request.rows = kRows;
  request.query = std::as_bytes(std::span(queries));
  request.output = attended.output;
  request.lse = attended.lse;
  AttendOptions options;
  options.scale = 0.125F;
  options.window = window;
  options.cold = cold;
  attended.status = pool->attend(std::span(&request, 1), options);
  return attended;
}

struct Found {
  Status status = Status::kOk;
  std::vector<std::uint32_t> ids = std::vector<std::uint32_t>(kRows * kBest);
  std::vector<float> scores = std::vector<float>(kRows * kBest);
  std::vector<std::uint32_t> counts = std::vector<std::uint32_t>(kRows);

  friend bool operator==(const Found&, const Found&) = default;
};

Found search(Pool* pool, std::uint64_t sequence, const KvData& data, ColdPages cold) {
  const std::vector<std::uint16_t> queries = make_queries(data, kRows, 2.0, 17);
  Found found;
  Pool::TopKRequest request;
  request.sequence = sequence;
  request.rows = kRows;
  request.top_k = kBest;
  request.scale = 0.125F;
  request.cold = cold;
  request.query = std::as_bytes(std::span(queries));
  request.ids = found.ids;
  request.scores = found.scores;
  request.counts = found.counts;
  found.status = pool->top_k(request);
  return found;
}

void expect_near(const Attended& a, const Attended& b) {
  ASSERT_EQ(a.status, Status::kOk);
  ASSERT_EQ(b.status, Status::kOk);
  for (std::size_t i = 0; i < a.output.size(); ++i) {
    EXPECT_NEAR(a.output[i], b.output[i], 2e-3) << i;
  }
  for (std::size_t row = 0; row < kRows; ++row) EXPECT_NEAR(a.lse[row], b.lse[row], 1e-3);
}

std::unique_ptr<Pool> make_pool(std::shared_ptr<Device> device, bool create = true) {
  std::unique_ptr<Pool> pool;
  std::string reason;
  EXPECT_EQ(create ? Pool::create(std::move(device), one_head(), &pool, &reason)
                   : Pool::open(std::move(device), one_head(), &pool, &reason),
            Status::kOk)
      << reason;
  return pool;
}

std::shared_ptr<Device> open(const std::string& uri) {
  std::unique_ptr<Device> device;
  std::string reason;
  EXPECT_EQ(open_device(uri, &device, &reason), Status::kOk) << reason;
  return device;
}

class PoolColdTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(append_page(pool_.get(), 1, data_, page), Status::kOk);
    }
  }

  std::uint32_t transcode(const Pages& pages, std::uint8_t codec = NKV_CODEC_PLANES_ZSTD) {
    std::uint32_t moved = 0;
    EXPECT_EQ(pool_->transcode(1, 0, 0, pages, codec, &moved), Status::kOk) << pool_->last_error();
    return moved;
  }

  [[nodiscard]] std::vector<std::uint8_t> codecs(std::uint64_t sequence = 1) const {
    std::vector<std::uint8_t> codecs;
    EXPECT_EQ(pool_->codecs(sequence, 0, 0, &codecs), Status::kOk);
    return codecs;
  }

  const KvData data_ = make_kv(Shape::kTopics, kPages* NKV_PAGE_TOKENS, kDim, kDim, 1);
  std::unique_ptr<Pool> pool_ = make_pool(open(GetParam()));
};

TEST_P(PoolColdTest, ChosenPagesAreCooledAndWarmed) {
  const PoolUsage warm = pool_->usage();
  EXPECT_EQ(transcode({1, 4, 4}), 2U);
  EXPECT_EQ(codecs(), (std::vector<std::uint8_t>{0, 3, 0, 0, 3, 0}));
  EXPECT_LT(pool_->usage().page_bytes, warm.page_bytes);
  EXPECT_EQ(pool_->usage().pages, warm.pages);
  EXPECT_EQ(transcode({1, 2}), 1U) << "page 1 is cold already";
  EXPECT_EQ(transcode({0, 1, 2, 3, 4, 5}, NKV_CODEC_NONE), 3U);
  EXPECT_EQ(pool_->usage().page_bytes, warm.page_bytes);
}

TEST_P(PoolColdTest, QueriesRefuseColdPagesUnlessTheySayOtherwise) {
  transcode({3});
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kRefuse).status, Status::kColdPage);
  EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kRefuse).status, Status::kColdPage);
}

TEST_P(PoolColdTest, SkippedPagesAreAsIfTheyWereNotThere) {
  ASSERT_EQ(pool_->create_sequence(2), Status::kOk);
  for (const std::uint32_t page : {0, 2, 3}) {
    ASSERT_EQ(append_page(pool_.get(), 2, data_, page), Status::kOk);
  }
  transcode({1, 4, 5});
  const Attended skipped = attend(pool_.get(), 1, data_, ColdPages::kSkip);
  const Attended others = attend(pool_.get(), 2, data_, ColdPages::kRefuse);
  ASSERT_EQ(skipped.status, Status::kOk) << pool_->last_error();
  EXPECT_EQ(skipped.output, others.output);
  EXPECT_EQ(skipped.lse, others.lse);
  const Found found = search(pool_.get(), 1, data_, ColdPages::kSkip);
  Found same = search(pool_.get(), 2, data_, ColdPages::kRefuse);
  const Pages numbers{0, 2, 3};
  for (std::uint32_t& id : same.ids) {
    id = numbers[id / NKV_PAGE_TOKENS] * NKV_PAGE_TOKENS + id % NKV_PAGE_TOKENS;
  }
  EXPECT_EQ(found, same);
}

TEST_P(PoolColdTest, DecodedPagesCountAsIfTheyWereWarm) {
  const Attended warm = attend(pool_.get(), 1, data_, ColdPages::kRefuse);
  const Found best = search(pool_.get(), 1, data_, ColdPages::kRefuse);
  for (const Pages& cold : {Pages{2}, Pages{0, 3, 5}, Pages{0, 1, 2, 3, 4, 5}}) {
    transcode(cold);
    const PoolUsage usage = pool_->usage();
    expect_near(attend(pool_.get(), 1, data_, ColdPages::kDecode), warm);
    EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kDecode), best) << pool_->last_error();
    EXPECT_EQ(pool_->usage().page_bytes, usage.page_bytes) << "a query moved a page";
    transcode(cold, NKV_CODEC_NONE);
  }
}

TEST_P(PoolColdTest, WhereAllIsColdSkippingLeavesNothing) {
  transcode({0, 1, 2, 3, 4, 5});
  const Attended nothing = attend(pool_.get(), 1, data_, ColdPages::kSkip);
  ASSERT_EQ(nothing.status, Status::kOk) << pool_->last_error();
  EXPECT_EQ(nothing.output, std::vector<float>(kRows * kDim));
  EXPECT_EQ(nothing.lse, std::vector<float>(kRows, kNothing));
  EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kSkip).counts, (Pages{0, 0}));
}

TEST_P(PoolColdTest, PagesThatAForkSharesAreWarmedButNotCooled) {
  ASSERT_EQ(pool_->fork(1, 2, 4 * NKV_PAGE_TOKENS), Status::kOk);
  EXPECT_EQ(transcode({2, 3, 4, 5}), 2U);
  EXPECT_EQ(codecs(), (std::vector<std::uint8_t>{0, 0, 0, 0, 3, 3}));
  EXPECT_EQ(attend(pool_.get(), 2, data_, ColdPages::kRefuse).status, Status::kOk);
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  EXPECT_EQ(transcode({2, 3, 4, 5}), 2U);
  ASSERT_EQ(pool_->fork(1, 3, 4 * NKV_PAGE_TOKENS), Status::kOk);
  EXPECT_EQ(transcode({2, 3}, NKV_CODEC_NONE), 2U);
  EXPECT_EQ(codecs(3), (std::vector<std::uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(attend(pool_.get(), 3, data_, ColdPages::kRefuse).status, Status::kOk);
}

TEST_P(PoolColdTest, WhatCannotBeAskedIsRefused) {
  std::uint32_t moved = 7;
  EXPECT_EQ(pool_->transcode(1, 0, 0, Pages{kPages}, NKV_CODEC_INT8, &moved), Status::kBadArgument);
  EXPECT_NE(pool_->last_error().find("no page 6"), std::string::npos) << pool_->last_error();
  EXPECT_EQ(moved, 0U);
  EXPECT_EQ(pool_->transcode(1, 1, 0, Pages{0}, NKV_CODEC_INT8, &moved), Status::kNotFound);
  EXPECT_EQ(pool_->transcode(9, 0, 0, Pages{0}, NKV_CODEC_INT8, &moved), Status::kNotFound);
  EXPECT_EQ(pool_->transcode(1, 0, 0, Pages{0}, NKV_CODEC_FP8 + 1, &moved), Status::kBadArgument);
  std::vector<std::uint8_t> codecs;
  EXPECT_EQ(pool_->codecs(9, 0, 0, &codecs), Status::kNotFound);
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kSkip, 100).status, Status::kOk)
      << "nothing is cold";
  transcode({0});
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kSkip, 100).status, Status::kBadArgument);
  EXPECT_NE(pool_->last_error().find("no window"), std::string::npos) << pool_->last_error();
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kDecode, 100).status, Status::kBadArgument);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolColdTest, testing::ValuesIn(device_uris()), device_name);

/// A pool over a file beside one that never cools anything, both given the same calls.
class Twins {
 public:
  explicit Twins(const std::filesystem::path& file)
      : uri_("cpu:" + file.string() + "?memory=32MiB&threads=2"),
        pool_(make_pool(open(uri_))),
        plain_(make_pool(open("cpu:?memory=32MiB&threads=2"))) {}

  void act(Random& random) {
    const std::uint64_t sequence = pick(random, 1, 5);
    const std::uint64_t other = pick(random, 1, 5);
    switch (random() % 8) {
      case 0:
        ASSERT_EQ(pool_->create_sequence(sequence), plain_->create_sequence(sequence));
        break;
      case 1:
        ASSERT_EQ(pool_->drop(sequence), plain_->drop(sequence));
        break;
      case 2: {
        const std::uint32_t tokens = NKV_PAGE_TOKENS * pick(random, 0, 4);
        ASSERT_EQ(pool_->fork(sequence, other, tokens), plain_->fork(sequence, other, tokens));
        break;
      }
      case 3:
      case 4: {
        const std::size_t page = pick(random, 0, kPages - 1);
        ASSERT_EQ(append_page(pool_.get(), sequence, data_, page),
                  append_page(plain_.get(), sequence, data_, page));
        break;
      }
      case 5:
        pool_.reset();
        pool_ = make_pool(open(uri_), /*create=*/false);
        break;
      default:
        move_pages(random, sequence);
    }
  }

  void expect_same() {
    for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
      std::uint32_t tokens = 0;
      std::uint32_t same = 0;
      ASSERT_EQ(pool_->tokens(sequence, 0, &tokens), plain_->tokens(sequence, 0, &same));
      ASSERT_EQ(tokens, same);
      EXPECT_EQ(search(pool_.get(), sequence, data_, ColdPages::kDecode),
                search(plain_.get(), sequence, data_, ColdPages::kDecode))
          << sequence << ": " << pool_->last_error();
    }
    EXPECT_EQ(pool_->usage().pages, plain_->usage().pages);
    EXPECT_EQ(pool_->usage().damaged_pages, 0U);
  }

 private:
  void move_pages(Random& random, std::uint64_t sequence) {
    std::uint32_t tokens = 0;
    if (pool_->tokens(sequence, 0, &tokens) != Status::kOk) return;
    Pages pages;
    for (std::uint32_t page = 0; page < tokens / NKV_PAGE_TOKENS; ++page) {
      if (random() % 2 == 0) pages.push_back(page);
    }
    constexpr std::array<std::uint8_t, 4> kLossless = {NKV_CODEC_NONE, NKV_CODEC_RESIDUAL,
                                                       NKV_CODEC_PLANES_LZ4, NKV_CODEC_PLANES_ZSTD};
    std::uint32_t moved = 0;
    ASSERT_EQ(pool_->transcode(sequence, 0, 0, pages, kLossless[random() % 4], &moved), Status::kOk)
        << pool_->last_error();
  }

  const KvData data_ = make_kv(Shape::kTopics, kPages* NKV_PAGE_TOKENS, kDim, kDim, 1);
  std::string uri_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Pool> plain_;
};

TEST(PoolColdTwinsTest, CoolingForksAndRestartsInAnyOrderLoseNothing) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("nearkv_pool_cold_" + std::to_string(::getpid()));
  for (std::uint64_t number = 0; number < 6; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    Twins twins(file);
    for (int step = 0; step < 60; ++step) {
      twins.act(random);
      if (testing::Test::HasFatalFailure()) break;
      if (step % 6 == 5) twins.expect_same();
    }
    twins.expect_same();
    if (testing::Test::HasFailure()) break;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace nearkv::test
