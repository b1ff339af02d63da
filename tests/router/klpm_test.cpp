// The order of waiting requests against a plain reading of k-LPM, and its promises to tenants.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "klpm_queue.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using router::KlpmQueue;
using router::WaitingRequest;

using Prefixes = std::map<std::uint64_t, std::uint32_t>;

std::uint64_t pop(KlpmQueue* queue, const Prefixes& prefixes) {
  WaitingRequest request;
  const auto measure = [&](const WaitingRequest& each) { return prefixes.at(each.id); };
  EXPECT_EQ(queue->pop(measure, &request), Status::kOk);
  return request.id;
}

TEST(KlpmQueueTest, IsThePapersOrderForOneTenant) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    const std::uint32_t k = pick(random, 1, 6);
    KlpmQueue queue(k, 1000);
    std::list<std::uint64_t> waiting;
    Prefixes prefixes;
    std::uint64_t next = 0;
    std::uint32_t turn = 0;
    for (int step = 0; step < 300; ++step) {
      if (waiting.empty() || pick(random, 0, 1) == 0) {
        prefixes[next] = pick(random, 0, 5);
        ASSERT_EQ(queue.push({next, "", pick(random, 1, 50)}), Status::kOk);
        waiting.push_back(next++);
        continue;
      }
      prefixes[waiting.back()] = pick(random, 0, 5);  // Caches change while requests wait.
      auto expected = waiting.begin();
      if (turn % k != 0) {
        for (auto each = waiting.begin(); each != waiting.end(); ++each) {
          if (prefixes[*each] > prefixes[*expected]) expected = each;
        }
      }
      ASSERT_EQ(pop(&queue, prefixes), *expected) << "step " << step;
      waiting.erase(expected);
      ++turn;
    }
  }
}

TEST(KlpmQueueTest, NobodyWaitsForMoreThanKTimesThoseBefore) {
  constexpr std::uint32_t kK = 4;
  KlpmQueue queue(kK, 1000);
  Prefixes prefixes{{0, 0}};
  ASSERT_EQ(queue.push({99, "", 1}), Status::kOk);
  prefixes[99] = 0;
  (void)pop(&queue, prefixes);  // The first turn is over.
  ASSERT_EQ(queue.push({0, "", 1}), Status::kOk);
  std::uint32_t waited = 0;
  for (std::uint64_t id = 1;; ++id) {
    prefixes[id] = 10;
    ASSERT_EQ(queue.push({id, "", 1}), Status::kOk);
    if (pop(&queue, prefixes) == 0) break;
    ++waited;
  }
  EXPECT_EQ(waited, kK - 1);
}

TEST(KlpmQueueTest, TenantsGetEqualBlocksOnFairTurns) {
  KlpmQueue queue(1, 100'000);
  Prefixes prefixes;
  std::map<std::uint64_t, std::pair<std::string, std::uint32_t>> known;
  std::uint64_t id = 0;
  for (int i = 0; i < 3000; ++i) {
    for (const auto& [tenant, blocks] : {std::pair("many", 10U), {"large", 90U}}) {
      prefixes[id] = 0;
      known[id] = {tenant, blocks};
      ASSERT_EQ(queue.push({id++, tenant, blocks}), Status::kOk);
    }
  }
  std::map<std::string, std::uint64_t> given;
  for (int i = 0; i < 2000; ++i) {
    const auto& [tenant, blocks] = known[pop(&queue, prefixes)];
    given[tenant] += blocks;
    const std::uint64_t apart =
        std::max(given["many"], given["large"]) - std::min(given["many"], given["large"]);
    ASSERT_LE(apart, 90U);
  }
}

TEST(KlpmQueueTest, WhoWasAwayGetsNoCredit) {
  KlpmQueue queue(1, 1000);
  Prefixes prefixes;
  for (std::uint64_t id = 0; id < 100; ++id) {
    prefixes[id] = 0;
    ASSERT_EQ(queue.push({id, "old", 5}), Status::kOk);
  }
  for (int i = 0; i < 50; ++i) (void)pop(&queue, prefixes);
  for (std::uint64_t id = 100; id < 150; ++id) {
    prefixes[id] = 0;
    ASSERT_EQ(queue.push({id, "new", 5}), Status::kOk);
  }
  int of_old = 0;
  for (int i = 0; i < 20; ++i) of_old += pop(&queue, prefixes) < 100;
  EXPECT_EQ(of_old, 10);
}

TEST(KlpmQueueTest, PassesOverWhoCannotGoAndCountsNothingForIt) {
  for (const std::uint32_t k : {1U, 3U}) {
    KlpmQueue queue(k, 10);
    for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(queue.push({id, "", 1}), Status::kOk);
    WaitingRequest request;
    const auto none = [](const WaitingRequest&) { return std::optional<std::uint32_t>{}; };
    EXPECT_EQ(queue.pop(none, &request), Status::kNotFound);
    const auto odd = [](const WaitingRequest& each) {
      return each.id % 2 == 1 ? std::optional(0U) : std::nullopt;
    };
    for (const std::uint64_t expected : {1U, 3U}) {
      ASSERT_EQ(queue.pop(odd, &request), Status::kOk);
      EXPECT_EQ(request.id, expected);
    }
    EXPECT_EQ(queue.pop(odd, &request), Status::kNotFound);
    EXPECT_EQ(queue.size(), 2U);
  }
}

TEST(KlpmQueueTest, RefusesWhatItCannotTake) {
  KlpmQueue queue(2, 2);
  WaitingRequest request;
  const auto measure = [](const WaitingRequest&) { return 0U; };
  EXPECT_EQ(queue.pop(measure, &request), Status::kNotFound);
  EXPECT_EQ(queue.push({1, "a", 1}), Status::kOk);
  EXPECT_EQ(queue.push({1, "a", 1}), Status::kExists);
  EXPECT_EQ(queue.push({2, "a", 1}), Status::kOk);
  EXPECT_EQ(queue.push({3, "a", 1}), Status::kPoolFull);
  EXPECT_EQ(queue.erase(1), Status::kOk);
  EXPECT_EQ(queue.erase(1), Status::kNotFound);
  EXPECT_EQ(queue.push({3, "b", 1}), Status::kOk);
  EXPECT_EQ(queue.size(), 2U);
}

}  // namespace
}  // namespace nearkv::test
