// Policies that look at where prefixes lie: Strata's and k-LPM.
#include "checked_engine.hpp"

namespace nearkv::scheduler::test {
namespace {

Scheduler::Options wide() {
  return {.token_budget = 64, .most_running = 8, .block_tokens = 4, .pool_blocks = 400};
}

Request of_prefix(std::uint64_t tag, std::uint64_t prefix, std::uint32_t output = 4) {
  return {.tag = tag,
          .prompt_tokens = 34,
          .most_output_tokens = output,
          .block_hashes = chain(prefix, 7, tag, 8)};
}

std::uint64_t computed_for(std::unique_ptr<SchedulingPolicy> policy) {
  CheckedEngine engine(wide(), std::move(policy));
  for (std::uint64_t tag = 0; tag < 4; ++tag) engine.add(of_prefix(tag, 1));
  std::uint64_t tokens = 0;
  while (engine.ended.size() < 4) {
    engine.step();
    for (const Work& work : engine.iteration.prefills) tokens += work.tokens;
  }
  return tokens;
}

TEST(CacheAware, WhoseprefixIsOnItsWayWaitsForIt) {
  EXPECT_EQ(computed_for(make_cache_aware({})), 34U + 3 * 6);
  EXPECT_GT(computed_for(make_sarathi()), 34U + 3 * 6) << "which meets delay hits";
}

TEST(CacheAware, OthersGoPastWhoWaits) {
  CheckedEngine engine(wide(), make_cache_aware({}));
  engine.add(of_prefix(1, 1));
  engine.add(of_prefix(2, 1));
  engine.add(of_prefix(3, 2));
  engine.step();
  std::set<std::uint64_t> in_step;
  for (const Work& work : engine.iteration.prefills) {
    in_step.insert(engine.scheduler->requests()[work.request].request.tag);
  }
  EXPECT_EQ(in_step, (std::set<std::uint64_t>{1, 3}));
  engine.run();
}

TEST(CacheAware, ALoadIsBegunBesideComputationThatHidesIt) {
  PlainTier tier(0.01);
  for (const BlockHash hash : chain(1, 7, 1, 8)) tier.held.insert(hash);
  CheckedEngine engine(wide(), make_cache_aware({.prefill_s_per_token = 0.01}), &tier);
  engine.add(of_prefix(1, 1));  // 8 blocks: 80 ms, or 34 tokens that take longer
  engine.add(of_prefix(2, 2));  // 34 tokens: 340 ms
  engine.step();
  EXPECT_EQ(engine.iteration.prefills.size(), 1U) << "what computes goes first";
  EXPECT_EQ(engine.iteration.loads.size(), 1U) << "and hides the load";
  engine.run();
}

TEST(CacheAware, ALoadThatNothingHidesBeginsAlone) {
  PlainTier tier(0.01);
  for (std::uint64_t tag = 1; tag <= 2; ++tag) {
    for (const BlockHash hash : chain(tag, 7, tag, 8)) tier.held.insert(hash);
  }
  CheckedEngine engine(wide(), make_cache_aware({.prefill_s_per_token = 0.0001}), &tier);
  engine.add(of_prefix(1, 1));
  engine.add(of_prefix(2, 2));
  engine.step();
  EXPECT_EQ(engine.iteration.loads.size(), 1U);
  engine.run();
}

TEST(CacheAware, NobodyWaitsLongerThanTheBound) {
  CheckedEngine engine(wide(), make_cache_aware({.window = 4, .longest_wait_s = 1}));
  for (std::uint64_t tag = 0; tag < 300; ++tag) {
    engine.add(of_prefix(tag, 1 + tag % 3, 20));
    engine.step();
  }
  engine.run();
  EXPECT_EQ(engine.ended.size(), 300U);
}

/// The order in which requests that wait together are started, one at a time.
std::vector<std::uint64_t> start_order(std::uint32_t k, const std::vector<Request>& requests) {
  Scheduler::Options options = wide();
  options.most_running = 1;
  CheckedEngine engine(options, make_k_lpm({.k = k}));
  for (const Request& request : requests) engine.add(request);
  engine.run();
  return engine.end_order;
}

TEST(KLpm, TheLongestMatchGoesFirstAndEachKAndFirstTimeTheOldest) {
  std::vector<Request> requests;
  // Of prefix 1 and of prefix 2, in turns.
  for (std::uint64_t tag = 0; tag < 8; ++tag) requests.push_back(of_prefix(tag, tag % 2));
  // With no prefix known the oldest is the first; prefix 0 then has the longest match.
  EXPECT_EQ(start_order(100, requests), (std::vector<std::uint64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  // Two by match, then the oldest.
  EXPECT_EQ(start_order(2, requests), (std::vector<std::uint64_t>{0, 2, 1, 3, 4, 5, 6, 7}));
}

TEST(KLpm, NobodyStarves) {
  // A request of a rare prefix among an endless stream of a common one.
  constexpr std::uint32_t kPicks = 4;
  Scheduler::Options options = wide();
  options.most_running = 1;
  CheckedEngine engine(options, make_k_lpm({.k = kPicks}));
  std::uint64_t tag = 0;
  for (; tag < 5; ++tag) engine.add(of_prefix(tag, 1, 1));
  engine.step();
  const std::uint64_t rare = tag;
  engine.add(of_prefix(tag++, 2, 1));
  const std::size_t ahead = engine.scheduler->waiting();
  for (; !engine.ended.contains(rare); ++tag) {
    engine.add(of_prefix(tag, 1, 1));
    engine.step();
    ASSERT_LE(engine.end_order.size(), (kPicks + 1) * (ahead + 1));
  }
  engine.run();
}

}  // namespace
}  // namespace nearkv::scheduler::test
