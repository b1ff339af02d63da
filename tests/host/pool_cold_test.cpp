// Queries over pages of which some are compressed: left out, or decoded for one call, by page.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/kv_data.hpp"
#include "support/offers.hpp"

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
  request.mode = NKV_SELECT_FULL;
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

/// Rows that best_codec() gives back on every device.
KvData make_data() {
  KvData data = make_kv(Shape::kTopics, kPages * NKV_PAGE_TOKENS, kDim, kDim, 1);
  round_for_int8(&data);
  return data;
}

class PoolColdTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(append_page(pool_.get(), 1, data_, page), Status::kOk);
    }
  }

  std::uint32_t cool(const Pages& pages) { return transcode(pages, codec_); }
  std::uint32_t warm(const Pages& pages) { return transcode(pages, NKV_CODEC_NONE); }
  std::uint32_t transcode(const Pages& pages, std::uint8_t codec) {
    std::uint32_t moved = 0;
    EXPECT_EQ(pool_->transcode(1, 0, 0, pages, codec, &moved), Status::kOk) << pool_->last_error();
    return moved;
  }

  [[nodiscard]] std::vector<std::uint8_t> codecs(std::uint64_t sequence = 1) const {
    std::vector<std::uint8_t> codecs;
    EXPECT_EQ(pool_->codecs(sequence, 0, 0, &codecs), Status::kOk);
    return codecs;
  }

  const KvData data_ = make_data();
  const std::shared_ptr<Device> device_ = open_or_throw(comparing_always(GetParam()));
  const std::uint8_t codec_ = best_codec(*device_);
  const std::unique_ptr<Pool> pool_ = create_or_throw(device_, one_head());
};

TEST_P(PoolColdTest, ChosenPagesAreCooledAndWarmed) {
  const PoolUsage before = pool_->usage();
  EXPECT_EQ(cool({1, 4, 4}), 2U);
  EXPECT_EQ(codecs(), (std::vector<std::uint8_t>{0, codec_, 0, 0, codec_, 0}));
  EXPECT_LT(pool_->usage().page_bytes, before.page_bytes);
  EXPECT_EQ(pool_->usage().pages, before.pages);
  EXPECT_EQ(cool({1, 2}), 1U) << "page 1 is cold already";
  EXPECT_EQ(warm({0, 1, 2, 3, 4, 5}), 3U);
  EXPECT_EQ(pool_->usage().page_bytes, before.page_bytes);
}

TEST_P(PoolColdTest, QueriesRefuseColdPagesUnlessTheySayOtherwise) {
  cool({3});
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kRefuse).status, Status::kColdPage);
  EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kRefuse).status, Status::kColdPage);
}

TEST_P(PoolColdTest, SkippedPagesAreAsIfTheyWereNotThere) {
  ASSERT_EQ(pool_->create_sequence(2), Status::kOk);
  for (const std::uint32_t page : Pages{0, 2, 3}) {
    ASSERT_EQ(append_page(pool_.get(), 2, data_, page), Status::kOk);
  }
  cool({1, 4, 5});
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
  const Attended warm_answer = attend(pool_.get(), 1, data_, ColdPages::kRefuse);
  const Found best = search(pool_.get(), 1, data_, ColdPages::kRefuse);
  for (const Pages& cold : {Pages{2}, Pages{0, 3, 5}, Pages{0, 1, 2, 3, 4, 5}}) {
    cool(cold);
    const PoolUsage usage = pool_->usage();
    expect_near(attend(pool_.get(), 1, data_, ColdPages::kDecode), warm_answer);
    EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kDecode), best) << pool_->last_error();
    EXPECT_EQ(pool_->usage().page_bytes, usage.page_bytes) << "a query moved a page";
    warm(cold);
  }
}

TEST_P(PoolColdTest, WhatALossyCodecKeepsIsWhatAQueryDecodes) {
  for (const std::uint8_t codec : {NKV_CODEC_INT8, NKV_CODEC_FP8, NKV_CODEC_INT4}) {
    const Pages cold{0, 1, 3, 4, 5};
    ASSERT_TRUE(offers_codec(*device_, codec));
    EXPECT_EQ(transcode(cold, codec), cold.size());
    const Attended decoded = attend(pool_.get(), 1, data_, ColdPages::kDecode);
    const Found found = search(pool_.get(), 1, data_, ColdPages::kDecode);
    warm(cold);
    expect_near(decoded, attend(pool_.get(), 1, data_, ColdPages::kRefuse));
    EXPECT_EQ(found, search(pool_.get(), 1, data_, ColdPages::kRefuse));
  }
}

TEST_P(PoolColdTest, WhereAllIsColdSkippingLeavesNothing) {
  cool({0, 1, 2, 3, 4, 5});
  const Attended nothing = attend(pool_.get(), 1, data_, ColdPages::kSkip);
  ASSERT_EQ(nothing.status, Status::kOk) << pool_->last_error();
  EXPECT_EQ(nothing.output, std::vector<float>(kRows * kDim));
  EXPECT_EQ(nothing.lse, std::vector<float>(kRows, kNothing));
  EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kSkip).counts, (Pages{0, 0}));
}

TEST_P(PoolColdTest, PagesThatAForkSharesAreWarmedButNotCooled) {
  ASSERT_EQ(pool_->fork(1, 2, 4 * NKV_PAGE_TOKENS), Status::kOk);
  EXPECT_EQ(cool({2, 3, 4, 5}), 2U);
  EXPECT_EQ(codecs(), (std::vector<std::uint8_t>{0, 0, 0, 0, codec_, codec_}));
  EXPECT_EQ(attend(pool_.get(), 2, data_, ColdPages::kRefuse).status, Status::kOk);
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  EXPECT_EQ(cool({2, 3, 4, 5}), 2U);
  ASSERT_EQ(pool_->fork(1, 3, 4 * NKV_PAGE_TOKENS), Status::kOk);
  EXPECT_EQ(warm({2, 3}), 2U);
  EXPECT_EQ(codecs(3), (std::vector<std::uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(attend(pool_.get(), 3, data_, ColdPages::kRefuse).status, Status::kOk);
}

TEST_P(PoolColdTest, WhatCannotBeAskedIsRefused) {
  std::uint32_t moved = 7;
  EXPECT_EQ(pool_->transcode(1, 0, 0, Pages{kPages}, NKV_CODEC_INT8, &moved), Status::kBadArgument);
  EXPECT_EQ(moved, 0U);
  EXPECT_EQ(pool_->transcode(1, 1, 0, Pages{0}, NKV_CODEC_INT8, &moved), Status::kNotFound);
  EXPECT_EQ(pool_->transcode(9, 0, 0, Pages{0}, NKV_CODEC_INT8, &moved), Status::kNotFound);
  EXPECT_EQ(pool_->transcode(1, 0, 0, Pages{0}, NKV_CODEC_FP8 + 1, &moved), Status::kBadArgument);
  std::vector<std::uint8_t> codecs;
  EXPECT_EQ(pool_->codecs(9, 0, 0, &codecs), Status::kNotFound);
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kSkip, 100).status, Status::kOk)
      << "nothing is cold";
  cool({0});
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kSkip, 100).status, Status::kBadArgument);
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kDecode, 100).status, Status::kBadArgument);
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages{3}).status, Status::kBadArgument);
  EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages{3}).status, Status::kBadArgument);
}

TEST_P(PoolColdTest, AFailureSaysWhichPageAndWhatToDo) {
  const auto expect_said = [&](const std::string& place, const std::string& to_do) {
    EXPECT_EQ(pool_->last_error(), place + " sequence 1, layer 0, KV head 0" + to_do);
  };
  const std::string warm_it =
      " is compressed; transcode it to codec NONE first, or let a query skip or decode it "
      "(ColdPages)";
  std::uint32_t moved = 0;
  (void)pool_->transcode(1, 0, 0, Pages{2, 9}, codec_, &moved);
  expect_said("transcoding pages of",
              ": there is no page 9 among the 6 pages, numbered from 0, of 64 tokens each");
  (void)pool_->transcode(1, 0, 0, Pages{2}, 33, &moved);
  expect_said("transcoding pages of", ": there is no codec 33; take one of enum nkv_codec");
  cool({2, 5});
  (void)attend(pool_.get(), 1, data_, ColdPages::kRefuse);
  expect_said("attending to", ": page 2" + warm_it);
  (void)search(pool_.get(), 1, data_, ColdPages::kRefuse);
  expect_said("searching", ": page 2" + warm_it);
  std::vector<std::byte> row(2UL * kDim);
  EXPECT_EQ(pool_->gather(1, 0, 0, Pages{5 * NKV_PAGE_TOKENS}, row, {}), Status::kColdPage);
  expect_said("reading", ": page 5" + warm_it);
  EXPECT_EQ(pool_->read(1, 0, 0, 2 * NKV_PAGE_TOKENS, 1, row, {}), Status::kColdPage);
  expect_said("reading", ": page 2" + warm_it);
  (void)attend(pool_.get(), 1, data_, ColdPages::kSkip, 100);
  expect_said("attending to",
              ": page 2 is compressed, and such pages allow no window and no limit of tokens; "
              "leave both 0, or transcode the page to codec NONE first");
  (void)search(pool_.get(), 1, data_, ColdPages{7});
  expect_said(
      "searching",
      ": there is no ColdPages 7; 0 refuses compressed pages, 1 skips them, 2 decodes them");
}

TEST_P(PoolColdTest, ABudgetOfNothingIsSaidToBeOne) {
  cool({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kRefuse).status, Status::kColdPage);
  EXPECT_NE(pool_->last_error().find("page 0 is compressed; transcode it"), std::string::npos)
      << pool_->last_error();
  const std::vector<std::uint16_t> queries = make_queries(data_, 1, 2.0, 17);
  Pool::TopKRequest request;
  request.sequence = 1;
  request.top_k = 0;
  request.query = std::as_bytes(std::span(queries));
  Pages counts(1);
  request.counts = counts;
  EXPECT_EQ(pool_->top_k(request), Status::kBadArgument);
  EXPECT_NE(pool_->last_error().find("top_k is 0; ask for one token at least"), std::string::npos)
      << pool_->last_error();
}

// Commands are given the warm pages, or a run of decoded ones; a failure names the list's own.
TEST_P(PoolColdTest, ADamagedPageIsNamedByItsNumberInTheList) {
  cool({0, 1, 4});
  const auto damage = [&](std::uint32_t number) {
    std::uint64_t address = 0;
    std::uint32_t tokens = 0;
    ASSERT_EQ(pool_->page_list(1, 0, 0, &address, &tokens), Status::kOk);
    nkv_page_entry entry{};
    std::memcpy(&entry, device_->memory().data() + address + number * sizeof(entry), sizeof(entry));
    const std::uint64_t page = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
    nkv_page_header header{};
    std::memcpy(&header, device_->memory().data() + page, sizeof(header));
    device_->memory()[page + sizeof(header) + header.payload_bytes / 2] ^= std::byte{1};
  };
  const auto expect_named = [&](Status status, const std::string& number) {
    EXPECT_EQ(status, Status::kCorrupt);
    EXPECT_NE(pool_->last_error().find("detail " + number + ":"), std::string::npos)
        << pool_->last_error();
  };
  damage(4);
  expect_named(attend(pool_.get(), 1, data_, ColdPages::kDecode).status, "4");
  expect_named(search(pool_.get(), 1, data_, ColdPages::kDecode).status, "4");
  std::uint32_t moved = 0;
  expect_named(pool_->transcode(1, 0, 0, Pages{0, 4}, NKV_CODEC_NONE, &moved), "4");
  EXPECT_EQ(attend(pool_.get(), 1, data_, ColdPages::kSkip).status, Status::kOk)
      << "it was not asked";
  damage(3);
  expect_named(attend(pool_.get(), 1, data_, ColdPages::kSkip).status, "3");
}

TEST_P(PoolColdTest, ThreadsAskWhileAnotherMovesPages) {
  const Found best = search(pool_.get(), 1, data_, ColdPages::kRefuse);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(search(pool_.get(), 1, data_, ColdPages::kDecode), best);
    });
  }
  for (int i = 0; i < 4; ++i) {
    cool({1, 2, 5});
    warm({1, 2, 5});
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolColdTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
