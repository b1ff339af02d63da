// What the replayer counts, against brute force on small traces.
#include "replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>
#include <sstream>

#include "capacity.hpp"
#include "index/chains.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"
#include "tier.hpp"

namespace nearkv::replay {
namespace {

using test::pick;

using Requests = std::vector<std::vector<std::uint32_t>>;

Trace trace_of(const Requests& requests) {
  std::stringstream lines;
  for (const auto& blocks : requests) {
    lines << R"({"timestamp": 1, "hash_ids": [)";
    for (std::size_t i = 0; i < blocks.size(); ++i) lines << (i == 0 ? "" : ", ") << blocks[i];
    lines << "]}\n";
  }
  Trace trace;
  std::string reason;
  EXPECT_TRUE(read_trace(lines, TraceNeeds::kBlocks, &trace, &reason)) << reason;
  return trace;
}

/// Paths from the root through a random tree, so that equal blocks have equal prefixes.
Requests random_requests(test::Random& random, std::uint32_t blocks, std::size_t requests) {
  std::vector<std::uint32_t> parent(blocks);
  for (std::uint32_t block = 0; block < blocks; ++block) parent[block] = pick(random, 0, block);
  Requests made(requests);
  for (auto& path : made) {
    std::uint32_t block = pick(random, 0, blocks - 1);
    for (; parent[block] != block; block = parent[block]) path.push_back(block);
    path.push_back(block);
    std::reverse(path.begin(), path.end());
  }
  return made;
}

/// The most hits that any choice of what to keep after each request gives, by trying all.
std::uint64_t best_hits(const Requests& requests, int capacity) {
  std::map<std::uint32_t, std::uint64_t> best_of_held = {{0, 0}};
  for (const auto& blocks : requests) {
    std::uint32_t mine = 0;
    for (const std::uint32_t block : blocks) mine |= 1U << block;
    std::map<std::uint32_t, std::uint64_t> next;
    for (const auto& [held, hits] : best_of_held) {
      std::size_t prefix = 0;
      while (prefix < blocks.size() && (held >> blocks[prefix] & 1U) != 0) ++prefix;
      const std::uint32_t there = held | mine;
      for (std::uint32_t kept = there;; kept = (kept - 1) & there) {
        if (std::popcount(kept) <= capacity) next[kept] = std::max(next[kept], hits + prefix);
        if (kept == 0) break;
      }
    }
    best_of_held = next;
  }
  std::uint64_t best = 0;
  for (const auto& [held, hits] : best_of_held) best = std::max(best, hits);
  return best;
}

TEST(ReplayTest, BoundIsWhatEarlierRequestsHold) {
  for (std::uint64_t number = 0; number < 20; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    const Requests requests = random_requests(random, 40, 60);
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const std::uint32_t block : requests[i]) {
        const bool seen =
            std::any_of(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const auto& earlier) {
                          return std::find(earlier.begin(), earlier.end(), block) != earlier.end();
                        });
        if (!seen) break;
        ++expected;
      }
    }
    EXPECT_EQ(infinite_hits(trace_of(requests)), expected);
  }
}

TEST(ReplayTest, BeladyIsTheBestThatAnyChoiceGives) {
  for (std::uint64_t number = 0; number < 30; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    const Requests requests = random_requests(random, 9, 25);
    for (const int capacity : {1, 2, 3, 5}) {
      EXPECT_EQ(belady(trace_of(requests), static_cast<std::uint64_t>(capacity)).prefix_hits,
                best_hits(requests, capacity))
          << "capacity " << capacity;
    }
  }
}

TEST(ReplayTest, NoPolicyBeatsBeladyAndAllReachTheBoundWithRoom) {
  for (std::uint64_t number = 0; number < 10; ++number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    const Trace trace = trace_of(random_requests(random, 300, 1000));
    for (const auto& named : shipped_eviction_policies()) {
      for (const std::uint64_t capacity : {1U, 10U, 50U, 300U}) {
        const auto policy = test::shipped_policy(named.name, capacity * 4096);
        const Outcome outcome = replay(trace, policy.get(), capacity, 4096);
        EXPECT_LE(outcome.prefix_hits, belady(trace, capacity).prefix_hits) << named.name;
        EXPECT_LE(policy->bytes(), capacity * 4096);
        if (capacity < 300) continue;
        EXPECT_EQ(outcome.prefix_hits, infinite_hits(trace)) << named.name;
        EXPECT_EQ(outcome.evictions, 0U);
      }
    }
  }
}

TEST(ReplayTest, ABlockBehindAMissingOneIsNoHit) {
  const Trace trace = trace_of({{1, 2}, {7}, {1, 2}, {1, 2}});
  const auto policy = test::shipped_policy("lru", 2 * 4096);
  const Outcome outcome = replay(trace, policy.get(), 2, 4096);
  // {7} evicts 2, the tail; {1, 2} hits 1 and evicts 7; the last request hits both.
  EXPECT_EQ(outcome.prefix_hits, 3U);
  EXPECT_EQ(outcome.evictions, 2U);
  EXPECT_EQ(infinite_hits(trace), 4U);

  // Without a common prefix block 2 is there and still no hit.
  EXPECT_EQ(infinite_hits(trace_of({{1, 2}, {3, 2}, {1, 2}})), 2U);
}

TEST(ReplayTest, ARequestLargerThanTheTierIsServed) {
  const Trace trace = trace_of({{1, 2, 3, 4}, {1, 2, 3, 4}});
  for (const auto& named : shipped_eviction_policies()) {
    const auto policy = test::shipped_policy(named.name, 2 * 4096);
    EXPECT_LE(replay(trace, policy.get(), 2, 4096).prefix_hits, 2U) << named.name;
    EXPECT_EQ(policy->bytes(), 2 * 4096U);
  }
}

TEST(TraceTest, NumbersBlocksByFirstAppearance) {
  std::stringstream lines(
      "{\"timestamp\": 1500, \"input_length\": 900, \"output_length\": 7, \"hash_ids\": [70, "
      "5]}\n\n"
      "{\"hash_ids\": []}\r\n{\"hash_ids\": [5, 18446744073709551615]}");
  Trace trace;
  std::string reason;
  ASSERT_TRUE(read_trace(lines, TraceNeeds::kBlocks, &trace, &reason)) << reason;
  EXPECT_EQ(trace.requests(), 3U);
  EXPECT_EQ(trace.blocks, (std::vector<std::uint32_t>{0, 1, 1, 2}));
  EXPECT_EQ(trace.hash_ids, (std::vector<std::uint64_t>{70, 5, 18446744073709551615U}));
  EXPECT_TRUE(trace.request(1).empty());
  EXPECT_EQ(trace.arrivals_ms, (std::vector<std::uint64_t>{1500, 0, 0}));
  EXPECT_EQ(trace.input_tokens, (std::vector<std::uint32_t>{900, 0, 0}));
  EXPECT_EQ(trace.output_tokens, (std::vector<std::uint32_t>{7, 0, 0}));
}

TEST(TraceTest, NamesTheLineThatIsNoRequest) {
  const std::string good = "{\"hash_ids\": [1]}\n";
  for (const std::string bad :
       {"{\"hash_ids\": [1", "[1]", "{}", "{\"hash_ids\": 1}", "{\"hash_ids\": [-1]}",
        "{\"hash_ids\": [1.5]}", "{\"hash_ids\": [\"1\"]}",
        "{\"hash_ids\": [1], \"timestamp\": -5}", "{\"hash_ids\": [1], \"timestamp\": 1.5}",
        "{\"hash_ids\": [1], \"input_length\": -1}", "{\"hash_ids\": [1], \"output_length\": 1e12}",
        "{\"hash_ids\": [1], \"output_length\": 1e300}", "{\"hash_ids\": [1e16]}"}) {
    std::stringstream lines(good + bad);
    Trace trace;
    std::string reason;
    EXPECT_FALSE(read_trace(lines, TraceNeeds::kBlocks, &trace, &reason)) << bad;
    EXPECT_TRUE(reason.starts_with("line 2: ")) << reason;
  }
  std::stringstream empty("\n{\"hash_ids\": []}\n");
  Trace trace;
  std::string reason;
  EXPECT_FALSE(read_trace(empty, TraceNeeds::kBlocks, &trace, &reason));
  EXPECT_EQ(reason, "no request with blocks");
}

TEST(TraceTest, WholeNumbersMayBeWrittenAsReals) {
  std::stringstream lines(
      R"({"timestamp": 1.5e3, "input_length": 900.0, "output_length": 7.0, "hash_ids": [70.0, 5]})");
  Trace trace;
  std::string reason;
  ASSERT_TRUE(read_trace(lines, TraceNeeds::kLengths, &trace, &reason)) << reason;
  EXPECT_EQ(trace.hash_ids, (std::vector<std::uint64_t>{70, 5}));
  EXPECT_EQ(trace.arrivals_ms[0], 1500U);
  EXPECT_EQ(trace.input_tokens[0], 900U);
  EXPECT_EQ(trace.output_tokens[0], 7U);
}

TEST(TraceTest, WhatIsNeededMustBeThere) {
  const auto missing = [](TraceNeeds needs, const std::string& rest) {
    std::stringstream lines(R"({"hash_ids": [1])" + rest + "}");
    Trace trace;
    std::string reason;
    return read_trace(lines, needs, &trace, &reason) ? "" : reason.substr(0, reason.find(';'));
  };
  const std::string time = R"(, "timestamp": 0)";
  const std::string prompt = R"(, "input_length": 9)";
  EXPECT_EQ(missing(TraceNeeds::kBlocks, ""), "");
  EXPECT_EQ(missing(TraceNeeds::kArrivals, ""), "line 1: timestamp is missing");
  EXPECT_EQ(missing(TraceNeeds::kArrivals, time), "");
  EXPECT_EQ(missing(TraceNeeds::kLengths, time), "line 1: input_length is missing");
  EXPECT_EQ(missing(TraceNeeds::kLengths, time + prompt), "line 1: output_length is missing");
  EXPECT_EQ(missing(TraceNeeds::kLengths, time + prompt + R"(, "output_length": 1)"), "");
}

TEST(TraceTest, ChainsAreThoseOfTheFileForAsManyTenantsAsWanted) {
  const nearkv::test::TemporaryFile file("chains");
  std::ofstream(file.path()) << "{\"hash_ids\": [7, 8]}\n\n{\"hash_ids\": [7.0]}\n";
  const auto chains = bench::trace_chains(file.path(), 4);
  ASSERT_EQ(chains.size(), 4U) << "two tenants of two requests";
  EXPECT_EQ(chains[0].size(), 2U);
  EXPECT_EQ(chains[1], bench::Chain{chains[0][0]});
  EXPECT_NE(chains[2][0], chains[0][0]);
  EXPECT_THROW((void)bench::trace_chains(file.path().string() + ".absent", 4), std::runtime_error);
  std::ofstream(file.path()) << "\n";
  EXPECT_THROW((void)bench::trace_chains(file.path(), 4), std::runtime_error) << "no request";
}

TEST(CapacityTest, IsBlocksShareOrBytes) {
  std::uint64_t blocks = 0;
  std::string reason;
  const auto parse = [&](std::string_view text) {
    return parse_capacity(text, 2000, 1U << 20, &blocks, &reason);
  };
  EXPECT_TRUE(parse("500"));
  EXPECT_EQ(blocks, 500U);
  EXPECT_TRUE(parse("2.5%"));
  EXPECT_EQ(blocks, 50U);
  EXPECT_TRUE(parse("64GiB"));
  EXPECT_EQ(blocks, 65536U);
  for (const std::string_view bad : {"", "%", "x", "-1", "101%", "-5%", "nan%", "1KiB", "0", "0%",
                                     "5%%", "99999999999999999999"}) {
    EXPECT_FALSE(parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace nearkv::replay
