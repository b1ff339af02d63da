// The router as a whole: workers that come, go and are unknown; load; pools; threads.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "router.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using router::Decision;
using router::Load;
using router::Router;
using router::RouterOptions;
using router::Ticket;
using router::Tier;
using router::WorkerId;

using Chain = std::vector<std::uint64_t>;
constexpr std::uint64_t kChain[] = {11, 12, 13, 14, 15};
constexpr std::uint32_t kTokens = 5 * 16 + 3;

std::unique_ptr<Router> router_of(std::string_view policy) {
  RouterOptions options;
  options.policy = policy;
  std::unique_ptr<Router> router;
  EXPECT_EQ(Router::create(options, &router), Status::kOk);
  return router;
}

WorkerId add(Router& router, std::string_view name, bool is_pool = false) {
  WorkerId id = 0;
  EXPECT_EQ(router.add_worker(name, {.is_pool = is_pool}, &id), Status::kOk);
  return id;
}

Decision route(const Router& router, std::span<const std::uint64_t> chain = kChain) {
  Decision decision;
  EXPECT_EQ(router.route({.hashes = chain, .tokens = kTokens, .among = {}}, &decision),
            Status::kOk);
  return decision;
}

TEST(RouterTest, GoesWhereTheBlocksAre) {
  const auto router = router_of("longest_prefix");
  const WorkerId first = add(*router, "first");
  const WorkerId second = add(*router, "second");
  ASSERT_EQ(router->store(first, Tier::kGpu, Chain{11, 12}), Status::kOk);
  ASSERT_EQ(router->store(second, Tier::kGpu, Chain{11, 12, 13}), Status::kOk);
  const Decision decision = route(*router);
  EXPECT_EQ(decision.worker, second);
  EXPECT_EQ(decision.prefix.blocks[0], 3U);
  EXPECT_EQ(decision.uncached_tokens, kTokens - 48);
  EXPECT_EQ(decision.longest_worker, second);
  EXPECT_EQ(decision.candidates, 2U);
  ASSERT_EQ(router->remove(second, Tier::kGpu, Chain{12}), Status::kOk);
  EXPECT_EQ(route(*router).worker, first);
  ASSERT_EQ(router->clear(first), Status::kOk);
  EXPECT_EQ(route(*router).worker, second);
}

TEST(RouterTest, UnknownWorkersAreToldSo) {
  const auto router = router_of("least_ttft");
  Decision decision;
  EXPECT_EQ(router->route({.hashes = kChain, .tokens = kTokens, .among = {}}, &decision),
            Status::kNotFound);
  const WorkerId pool = add(*router, "pool", true);
  EXPECT_EQ(router->route({.hashes = kChain, .tokens = kTokens, .among = {}}, &decision),
            Status::kNotFound);
  for (const WorkerId unknown : {WorkerId{1}, WorkerId{4095}, WorkerId{4096}, WorkerId{65535}}) {
    EXPECT_EQ(router->store(unknown, Tier::kGpu, kChain), Status::kNotFound);
    EXPECT_EQ(router->remove(unknown, Tier::kGpu, kChain), Status::kNotFound);
    EXPECT_EQ(router->clear(unknown), Status::kNotFound);
  }
  EXPECT_EQ(router->remove_worker("nobody"), Status::kNotFound);
  WorkerId id = 0;
  EXPECT_EQ(router->add_worker("", {}, &id), Status::kBadArgument);
  EXPECT_EQ(router->add_worker("pool", {}, &id), Status::kExists);
  EXPECT_EQ(router->add_worker("slow", {.prefill_tokens_per_s = -1}, &id), Status::kBadArgument);
  const WorkerId worker = add(*router, "worker");
  const std::vector<WorkerId> others{pool};
  EXPECT_EQ(router->route({.hashes = kChain, .tokens = kTokens, .among = others}, &decision),
            Status::kNotFound);
  EXPECT_EQ(router->route({.hashes = kChain, .tokens = 79, .among = {}}, &decision),
            Status::kBadArgument);
  EXPECT_EQ(route(*router).worker, worker);
}

TEST(RouterTest, ARemovedWorkersNumberBringsNothingAlong) {
  const auto router = router_of("longest_prefix");
  const WorkerId before = add(*router, "before");
  ASSERT_EQ(router->store(before, Tier::kGpu, kChain), Status::kOk);
  Ticket ticket;
  ASSERT_EQ(router->start(route(*router), &ticket), Status::kOk);
  ASSERT_EQ(router->remove_worker("before"), Status::kOk);
  EXPECT_EQ(router->index().blocks(), 0U);
  EXPECT_EQ(router->store(before, Tier::kGpu, kChain), Status::kNotFound);
  const WorkerId after = add(*router, "after");
  EXPECT_EQ(after, before);
  EXPECT_EQ(route(*router).prefix.total(), 0U);
  router->first_token(&ticket);
  router->finish(&ticket);  // Of the one that is gone.
  EXPECT_EQ(router->workers().load(after), Load());
  EXPECT_EQ(router->workers().name(after), "after");
}

TEST(RouterTest, APoolsBlocksAreEverybodys) {
  const auto router = router_of("least_ttft");
  const WorkerId first = add(*router, "first");
  const WorkerId pool = add(*router, "pool", true);
  const WorkerId second = add(*router, "second");
  ASSERT_EQ(router->store(first, Tier::kGpu, Chain{11}), Status::kOk);
  ASSERT_EQ(router->store(second, Tier::kDram, Chain{11, 12, 14}), Status::kOk);
  ASSERT_EQ(router->store(pool, Tier::kGpu, Chain{12, 13, 15}), Status::kOk);
  const std::vector<WorkerId> only_first{first};
  Decision decision;
  ASSERT_EQ(router->route({.hashes = kChain, .tokens = kTokens, .among = only_first}, &decision),
            Status::kOk);
  EXPECT_EQ(decision.prefix, (router::WorkerPrefix{{1, 0, 0, 2}}));
  const std::vector<WorkerId> only_second{second};
  ASSERT_EQ(router->route({.hashes = kChain, .tokens = kTokens, .among = only_second}, &decision),
            Status::kOk);
  EXPECT_EQ(decision.prefix, (router::WorkerPrefix{{0, 3, 0, 2}}));
}

TEST(RouterTest, LoadIsWhatWasStartedAndHasNotEnded) {
  const auto router = router_of("least_load");
  const WorkerId only = add(*router, "only");
  std::vector<Ticket> tickets(3);
  for (Ticket& ticket : tickets) ASSERT_EQ(router->start(route(*router), &ticket), Status::kOk);
  EXPECT_EQ(router->workers().load(only), (Load{3, 3 * kTokens, 15}));
  router->first_token(&tickets[0]);
  router->first_token(&tickets[0]);
  EXPECT_EQ(router->workers().load(only), (Load{3, 2 * kTokens, 15}));
  for (Ticket& ticket : tickets) {
    router->finish(&ticket);
    router->finish(&ticket);
  }
  EXPECT_EQ(router->workers().load(only), Load());
}

TEST(RouterTest, LoadSpreadsEqualRequests) {
  for (const std::string_view policy : {"least_load", "dynamo", "mooncake", "least_ttft"}) {
    const auto router = router_of(policy);
    for (const char* name : {"a", "b", "c", "d"}) add(*router, name);
    std::map<WorkerId, int> counts;
    std::vector<Ticket> tickets(40);
    for (Ticket& ticket : tickets) {
      const Decision decision = route(*router);
      ++counts[decision.worker];
      ASSERT_EQ(router->start(decision, &ticket), Status::kOk);
    }
    for (const auto& [worker, count] : counts) EXPECT_EQ(count, 10) << policy << ' ' << worker;
  }
}

TEST(RouterTest, BadOptionsAreRefused) {
  std::unique_ptr<Router> router;
  RouterOptions options;
  options.policy = "best";
  EXPECT_EQ(Router::create(options, &router), Status::kNotFound);
  options.policy = "dynamo";
  options.index_limit_bytes = 1000;
  EXPECT_EQ(Router::create(options, &router), Status::kBadArgument);
}

TEST(RouterTest, WorkersComeAndGoWhileOthersRoute) {
  const auto router = router_of("least_ttft");
  const WorkerId stays = add(*router, "stays");
  ASSERT_EQ(router->store(stays, Tier::kGpu, kChain), Status::kOk);
  std::atomic<bool> is_over = false;
  std::thread routing([&] {
    while (!is_over) {
      const Decision decision = route(*router);
      EXPECT_LE(decision.prefix.total(), std::size(kChain));
      Ticket ticket;
      const Status status = router->start(decision, &ticket);
      EXPECT_TRUE(status == Status::kOk || status == Status::kNotFound);
      router->finish(&ticket);
    }
  });
  Random random = case_random(9);
  for (int i = 0; i < 500; ++i) {
    const std::string name = "comes" + std::to_string(i);
    const WorkerId id = add(*router, name, pick(random, 0, 3) == 0);
    EXPECT_EQ(router->store(id, Tier::kDram, kChain), Status::kOk);
    ASSERT_EQ(router->remove_worker(name), Status::kOk);
  }
  is_over = true;
  routing.join();
  EXPECT_EQ(router->workers().active(), std::vector<WorkerId>{stays});
  EXPECT_EQ(router->workers().load(stays), Load());
  EXPECT_EQ(router->index().blocks(), std::size(kChain));
}

}  // namespace
}  // namespace nearkv::test
