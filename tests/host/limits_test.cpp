// The pool at its limits: full, empty, asked for nonsense, used from several threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "support/devices.hpp"
#include "support/layer_rows.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

std::unique_ptr<Pool> make_pool(const std::string& uri) {
  return create_or_throw(open_or_throw(uri), small_pool());
}

/// The URI with another size of memory.
std::string small(const std::string& uri) { return uri.substr(0, uri.find(':')) + ":?memory=6MiB"; }

class LimitsTest : public testing::TestWithParam<std::string> {
 protected:
  Status attend(std::uint64_t sequence, std::span<const std::uint16_t> query) {
    AttendRequest request;
    request.sequence = sequence;
    request.query = std::as_bytes(query);
    request.output = output_;
    request.lse = lse_;
    return pool_->attend(std::span(&request, 1), {});
  }

  Status top_k(std::uint64_t sequence, std::span<const std::uint16_t> query) {
    std::vector<std::uint32_t> ids(8);
    std::vector<float> scores(8);
    std::vector<std::uint32_t> counts(1);
    Pool::TopKRequest request;
    request.sequence = sequence;
    request.top_k = 8;
    request.mode = NKV_SELECT_FULL;
    request.query = std::as_bytes(query);
    request.ids = ids;
    request.scores = scores;
    request.counts = counts;
    return pool_->top_k(request);
  }

  std::unique_ptr<Pool> pool_ = make_pool(small(GetParam()));
  LayerRows rows_{256, 5};
  std::vector<std::uint16_t> query_ = std::vector<std::uint16_t>(kDim, to_bf16(0.5F));
  std::vector<float> output_ = std::vector<float>(kDim, 7.0F);
  std::vector<float> lse_{7.0F};
};

TEST_P(LimitsTest, AFullPoolLosesNothingAndHasRoomAgainAfterADrop) {
  std::map<std::uint64_t, std::uint32_t> tokens;
  Status status = Status::kOk;
  for (std::uint64_t sequence = 1; status == Status::kOk; sequence = sequence % 3 + 1) {
    if (!tokens.contains(sequence)) {
      ASSERT_EQ(pool_->create_sequence(sequence), Status::kOk);
    }
    status = append(pool_.get(), sequence, 0, rows_, 0, 256);
    tokens[sequence] += status == Status::kOk ? 256 : 0;
    ASSERT_LT(tokens[sequence], 100000U) << "the pool never fills";
  }
  ASSERT_EQ(status, Status::kPoolFull);
  EXPECT_NE(pool_->last_error().find("no room left"), std::string::npos) << pool_->last_error();
  for (const auto& [sequence, count] : tokens) {
    std::uint32_t present = 0;
    ASSERT_EQ(pool_->tokens(sequence, 0, &present), Status::kOk);
    EXPECT_EQ(present, count);
    for (std::uint32_t first = 0; first < count; first += 256) {
      EXPECT_TRUE(holds(pool_.get(), sequence, 0, first, rows_)) << sequence << " at " << first;
    }
  }
  const std::uint64_t full = pool_->usage().page_bytes;
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  EXPECT_LT(pool_->usage().page_bytes, full);
  EXPECT_EQ(append(pool_.get(), 1, 0, rows_, 0, 256), Status::kOk) << pool_->last_error();
  EXPECT_TRUE(holds(pool_.get(), 1, 0, tokens[1], rows_));
}

TEST_P(LimitsTest, ThereAreOnlySoManySequences) {
  for (std::uint64_t sequence = 0; sequence < small_pool().max_sequences; ++sequence) {
    ASSERT_EQ(pool_->create_sequence(sequence), Status::kOk);
  }
  EXPECT_EQ(pool_->create_sequence(1), Status::kExists);
  EXPECT_EQ(pool_->create_sequence(100), Status::kPoolFull);
  EXPECT_EQ(pool_->fork(1, 100, 0), Status::kPoolFull);
  ASSERT_EQ(pool_->drop(5), Status::kOk);
  EXPECT_EQ(pool_->create_sequence(100), Status::kOk);
}

TEST_P(LimitsTest, AnEmptySequenceAttendsToNothing) {
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  ASSERT_EQ(attend(1, query_), Status::kOk) << pool_->last_error();
  EXPECT_EQ(output_, std::vector<float>(kDim, 0.0F));
  EXPECT_EQ(lse_[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(top_k(1, query_), Status::kOk);
}

TEST_P(LimitsTest, AQueryThatIsNotFiniteIsRefused) {
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, 64), Status::kOk);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    query_[10] = to_bf16(bad);
    EXPECT_EQ(attend(1, query_), Status::kBadQuery);
    EXPECT_EQ(top_k(1, query_), Status::kBadQuery);
    EXPECT_NE(pool_->last_error().find("NaN or an infinity"), std::string::npos);
  }
}

TEST_P(LimitsTest, ArgumentsThatDoNotFitAreRefused) {
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, 128), Status::kOk);
  EXPECT_EQ(append(pool_.get(), 1, 0, rows_, 0, 100), Status::kBadArgument);
  EXPECT_EQ(append(pool_.get(), 1, kLayers, rows_, 0, 64), Status::kNotFound);
  EXPECT_EQ(append(pool_.get(), 2, 0, rows_, 0, 64), Status::kNotFound);
  EXPECT_EQ(pool_->append(1, 0, {}, {}, 64), Status::kBadArgument);
  EXPECT_EQ(pool_->fork(1, 2, 64), Status::kBadArgument) << "layer 1 has no token 64";
  EXPECT_EQ(pool_->fork(9, 2, 0), Status::kNotFound);
  EXPECT_EQ(pool_->fork(1, 1, 0), Status::kExists);
  EXPECT_EQ(pool_->drop(9), Status::kNotFound);
  std::uint32_t tokens = 0;
  EXPECT_EQ(pool_->tokens(9, 0, &tokens), Status::kNotFound);
  EXPECT_EQ(attend(9, query_), Status::kNotFound);
  EXPECT_EQ(attend(1, std::span(query_).first(10)), Status::kBadArgument);
  EXPECT_EQ(top_k(1, std::span(query_).first(10)), Status::kBadArgument);
  std::vector<std::byte> rows(128);
  EXPECT_EQ(pool_->read(1, 0, 0, 128, 1, rows, {}), Status::kBadArgument);
  EXPECT_EQ(pool_->read(1, 0, 0, 0xFFFFFFFF, 2, rows, {}), Status::kBadArgument);
  EXPECT_EQ(pool_->read(1, 0, 0, 0, 2, rows, {}), Status::kBadArgument);
  EXPECT_EQ(pool_->read(1, 0, 0, 0, 1, rows, {}), Status::kOk) << pool_->last_error();
  const std::vector<std::uint32_t> beyond{128};
  EXPECT_EQ(pool_->gather(1, 0, 0, beyond, rows, {}), Status::kBadField);
  EXPECT_EQ(pool_->gather(1, 0, 0, {}, {}, {}), Status::kOk);
  std::uint64_t pages = 0;
  EXPECT_EQ(pool_->scrub(9, &pages), Status::kNotFound);
}

TEST_P(LimitsTest, AnErrorOfACallThatOnlyLooksIsToldToo) {
  std::uint32_t tokens = 0;
  std::uint64_t address = 0;
  std::vector<std::uint8_t> codecs;
  EXPECT_EQ(pool_->tokens(77, 1, &tokens), Status::kNotFound);
  EXPECT_NE(pool_->last_error().find("sequence 77, layer 1: no such"), std::string::npos)
      << pool_->last_error();
  EXPECT_EQ(pool_->page_list(78, 1, 1, &address, &tokens), Status::kNotFound);
  EXPECT_NE(pool_->last_error().find("sequence 78, layer 1, KV head 1: no such"), std::string::npos)
      << pool_->last_error();
  EXPECT_EQ(pool_->codecs(79, 0, 1, &codecs), Status::kNotFound);
  EXPECT_NE(pool_->last_error().find("sequence 79, layer 0, KV head 1: no such"), std::string::npos)
      << pool_->last_error();
}

TEST_P(LimitsTest, ARefusedRequestLeavesNothingOfThoseBeforeIt) {
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, 256), Status::kOk);
  AttendRequest good;
  good.sequence = 1;
  good.query = std::as_bytes(std::span(query_));
  good.output = output_;
  good.lse = lse_;
  AttendRequest unknown = good;
  unknown.sequence = 77;
  const std::array requests = {good, unknown};
  EXPECT_EQ(pool_->attend(requests, {}), Status::kNotFound);
  EXPECT_EQ(attend(1, query_), Status::kOk) << pool_->last_error();
  EXPECT_TRUE(holds(pool_.get(), 1, 0, 0, rows_)) << pool_->last_error();
}

TEST_P(LimitsTest, ThreadsTakeTurns) {
  constexpr int kThreads = 4;
  constexpr std::uint32_t kRounds = 12;
  std::atomic<int> failures{0};
  ASSERT_EQ(pool_->create_sequence(100), Status::kOk);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto own = static_cast<std::uint64_t>(thread);
      const LayerRows rows(64, static_cast<std::uint32_t>(thread));
      failures += pool_->create_sequence(own) != Status::kOk;
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        failures += append(pool_.get(), own, 0, rows, 0, 64) != Status::kOk;
        // All race for the same place of a shared sequence.
        failures += append(pool_.get(), 100, 1, rows, 0, 64) != Status::kOk;
        failures += !holds(pool_.get(), own, 0, round * 64, rows);
        failures += pool_->usage().sequences < 2;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0) << pool_->last_error();
  std::uint32_t tokens = 0;
  ASSERT_EQ(pool_->tokens(100, 1, &tokens), Status::kOk);
  ASSERT_EQ(tokens, kThreads * kRounds * 64);
  // Each page of the shared sequence is one thread's, whole.
  std::map<int, std::uint32_t> pages_of;
  for (std::uint32_t first = 0; first < tokens; first += 64) {
    for (int thread = 0; thread < kThreads; ++thread) {
      const LayerRows rows(64, static_cast<std::uint32_t>(thread));
      if (holds(pool_.get(), 100, 1, first, rows)) ++pages_of[thread];
    }
  }
  for (int thread = 0; thread < kThreads; ++thread) EXPECT_EQ(pages_of[thread], kRounds);
}

INSTANTIATE_TEST_SUITE_P(Devices, LimitsTest, testing::ValuesIn(device_uris()), device_name);

/// Seeds of the pages of each layer of each sequence: what the pool should hold.
using Oracle = std::map<std::uint64_t, std::array<std::vector<std::uint32_t>, kLayers>>;

TEST(OracleTest, RandomOperationsDoWhatTheyDoToAMap) {
  const TemporaryFile file("oracle");
  const std::string uri = file.uri("8MiB");
  std::unique_ptr<Pool> pool = make_pool(uri);
  Oracle oracle;
  Random random = case_random(0);
  std::map<Status, int> seen;
  for (int step = 0; step < 1500 && !testing::Test::HasFailure(); ++step) {
    SCOPED_TRACE(case_name(0) + ", step " + std::to_string(step));
    const std::uint64_t id = pick(random, 1, 10);
    const std::uint64_t other = pick(random, 1, 10);
    const auto found = oracle.find(id);
    const bool exists = found != oracle.end();
    Status status = Status::kOk;
    switch (pick(random, 0, 11)) {
      case 0:
        status = pool->create_sequence(id);
        EXPECT_TRUE(status == (exists ? Status::kExists : Status::kOk) ||
                    status == Status::kPoolFull || status == Status::kExists);
        if (status == Status::kOk) oracle[id] = {};
        break;
      case 1:
        status = pool->drop(id);
        EXPECT_EQ(status, exists ? Status::kOk : Status::kNotFound);
        if (exists) oracle.erase(found);
        break;
      case 2:
      case 3: {
        const std::size_t present =
            exists ? std::min(found->second[0].size(), found->second[1].size()) : 0;
        const std::uint32_t pages = pick(random, 0, static_cast<std::uint32_t>(present));
        status = pool->fork(id, other, pages * NKV_PAGE_TOKENS);
        EXPECT_TRUE(exists || status == Status::kNotFound);
        if (status != Status::kOk) break;
        ASSERT_TRUE(exists && !oracle.contains(other));
        auto copy = found->second;
        for (auto& layer : copy) layer.resize(pages);
        oracle[other] = copy;
        break;
      }
      case 4: {
        pool.reset();
        std::string reason;
        ASSERT_EQ(Pool::open(open_or_throw(uri), small_pool(), &pool, &reason), Status::kOk)
            << reason;
        break;
      }
      default: {
        const auto layer = static_cast<std::uint16_t>(pick(random, 0, kLayers - 1));
        const auto seed = static_cast<std::uint32_t>(random() % 1000);
        const std::uint32_t pages = pick(random, 1, 3);
        // All pages of one append hold the same rows.
        const LayerRows one(NKV_PAGE_TOKENS, seed);
        LayerRows rows = one;
        for (std::uint32_t page = 1; page < pages; ++page) {
          rows.keys.insert(rows.keys.end(), one.keys.begin(), one.keys.end());
          rows.values.insert(rows.values.end(), one.values.begin(), one.values.end());
        }
        status = append(pool.get(), id, layer, rows, 0, pages * NKV_PAGE_TOKENS);
        EXPECT_TRUE(exists ? status == Status::kOk || status == Status::kPoolFull
                           : status == Status::kNotFound)
            << message(status);
        if (status == Status::kOk)
          found->second[layer].insert(found->second[layer].end(), pages, seed);
      }
    }
    ++seen[status];
    const auto looked_at = oracle.find(other);
    for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
      std::uint32_t tokens = 0;
      const Status there = pool->tokens(other, layer, &tokens);
      ASSERT_EQ(there, looked_at == oracle.end() ? Status::kNotFound : Status::kOk);
      if (there != Status::kOk) continue;
      const auto& pages = looked_at->second[layer];
      ASSERT_EQ(tokens, pages.size() * NKV_PAGE_TOKENS) << "sequence " << other;
      if (pages.empty()) continue;
      const auto page = static_cast<std::uint32_t>(random() % pages.size());
      ASSERT_TRUE(holds(pool.get(), other, layer, page * NKV_PAGE_TOKENS,
                        LayerRows(NKV_PAGE_TOKENS, pages[page])))
          << "sequence " << other << ", page " << page << ": " << pool->last_error();
    }
    ASSERT_EQ(pool->usage().sequences, oracle.size());
  }
  for (const Status status : {Status::kOk, Status::kNotFound, Status::kExists, Status::kPoolFull}) {
    EXPECT_GT(seen[status], 0) << message(status);
  }
  while (!oracle.empty()) {
    ASSERT_EQ(pool->drop(oracle.begin()->first), Status::kOk);
    oracle.erase(oracle.begin());
  }
  EXPECT_EQ(pool->usage().pages, 0U) << "pages leaked";
}

}  // namespace
}  // namespace nearkv::test
