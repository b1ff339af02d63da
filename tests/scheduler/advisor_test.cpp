// A policy beside an engine that keeps its own steps: told what happens, it decides as in ours.
#include "advisor.hpp"

#include <gtest/gtest.h>

#include <map>

namespace nearkv::scheduler::test {
namespace {

std::unique_ptr<Advisor> make(std::string_view policy, const PolicyOptions& options = {}) {
  std::unique_ptr<Advisor> advisor;
  std::string reason;
  EXPECT_EQ(Advisor::open(policy, options, 4, &advisor, &reason), Status::kOk) << reason;
  return advisor;
}

/// The engine holds nothing of any request.
Residency nothing(RequestId /*id*/) { return {}; }

/// Starts whoever is next, until nobody is; in their order.
std::vector<RequestId> start_all(Advisor* advisor, Seconds now_s = 0) {
  std::vector<RequestId> order;
  while (const auto id = advisor->next(now_s, nothing)) {
    EXPECT_EQ(advisor->start(now_s, *id, {}), Status::kOk);
    order.push_back(*id);
  }
  return order;
}

TEST(Advisor, KLpmAsksTheEngineWhatItHolds) {
  const auto advisor = make("k_lpm", {.prefix_match = {.k = 2}});
  std::map<RequestId, std::uint32_t> held;
  for (const std::uint32_t blocks : {0U, 3U, 1U, 9U}) {
    held[advisor->add(0, {.prompt_tokens = 40})] = blocks;
  }
  std::vector<std::uint32_t> order;
  const Advisor::Find find = [&](RequestId id) { return Residency{.pool_blocks = held.at(id)}; };
  while (const auto id = advisor->next(0, find)) {
    order.push_back(held.at(*id));
    ASSERT_EQ(advisor->start(0, *id, {.pool_blocks = held.at(*id)}), Status::kOk);
  }
  // Twice the longest, then the oldest.
  EXPECT_EQ(order, (std::vector<std::uint32_t>{9, 3, 0, 1}));
}

TEST(Advisor, FairShareTakesTurnsBetweenTenantsAndStopsTheOneThatHadMost) {
  const auto advisor = make("fair_share");
  for (const std::uint32_t tenant : {0U, 0U, 0U, 1U}) {
    (void)advisor->add(0, {.prompt_tokens = 100, .tenant = tenant});
  }
  ASSERT_EQ(advisor->next(0, nothing), 0U);
  ASSERT_EQ(advisor->start(0, 0, {}), Status::kOk);
  ASSERT_EQ(advisor->advance(0, 0, 100, 1), Status::kOk);
  ASSERT_EQ(advisor->next(0, nothing), 3U);
  ASSERT_EQ(advisor->start(0, 3, {}), Status::kOk);
  EXPECT_EQ(advisor->order_of_giving_way(1), (std::vector<RequestId>{0, 3}));
}

TEST(Advisor, RolloutsSiblingsWaitForTheFirstOfTheirGroup) {
  const auto advisor = make("rollout");
  for (const std::uint32_t group : {7U, 7U, 8U}) {
    (void)advisor->add(0, {.prompt_tokens = 10, .most_output_tokens = 5, .group = group});
  }
  EXPECT_EQ(start_all(advisor.get()), (std::vector<RequestId>{0, 2}));
  ASSERT_EQ(advisor->advance(0, 0, 10, 1), Status::kOk);
  EXPECT_EQ(start_all(advisor.get()), std::vector<RequestId>{1});
}

TEST(Advisor, WhoIsSetAsideIsNotNamedAndCountsOnce) {
  const auto advisor = make("fair_share");
  const RequestId id = advisor->add(0, {.prompt_tokens = 10});
  ASSERT_EQ(advisor->set_aside(0, id), Status::kOk);
  EXPECT_EQ(advisor->next(0, nothing), std::nullopt);
  ASSERT_EQ(advisor->wait(0, id), Status::kOk);
  EXPECT_EQ(advisor->next(0, nothing), id);
  ASSERT_EQ(advisor->start(0, id, {}), Status::kOk);
  ASSERT_EQ(advisor->wait(0, id), Status::kOk);  // Preempted.
  EXPECT_EQ(advisor->next(0, nothing), id);
  ASSERT_EQ(advisor->end(0, id), Status::kOk);
  EXPECT_EQ(advisor->requests().size(), 0U);
  EXPECT_EQ(advisor->next(0, nothing), std::nullopt);
}

TEST(Advisor, WhoWaitsAgainIsStillOneRequest) {
  const auto advisor = make("fair_share");
  const RequestId first = advisor->add(0, {.prompt_tokens = 10, .tenant = 1});
  ASSERT_EQ(advisor->set_aside(0, first), Status::kOk);
  ASSERT_EQ(advisor->wait(0, first), Status::kOk);
  ASSERT_EQ(advisor->end(0, first), Status::kOk);
  const RequestId other = advisor->add(0, {.prompt_tokens = 1000});
  ASSERT_EQ(advisor->start(0, other, {}), Status::kOk);
  ASSERT_EQ(advisor->advance(0, other, 1000, 1), Status::kOk);
  const RequestId waiting = advisor->add(0, {.prompt_tokens = 10});
  // Tenant 1 was idle: it has no claim on what it did not ask for.
  (void)advisor->add(0, {.prompt_tokens = 10, .tenant = 1});
  EXPECT_EQ(advisor->next(0, nothing), waiting);
}

TEST(Advisor, CallsOutOfOrderAreRefusedAndChangeNothing) {
  const auto advisor = make("sarathi");
  const RequestId id = advisor->add(0, {.prompt_tokens = 10});
  EXPECT_EQ(advisor->advance(0, id, 1, 1), Status::kBadArgument);
  EXPECT_EQ(advisor->wait(0, id), Status::kBadArgument);
  ASSERT_EQ(advisor->start(0, id, {}), Status::kOk);
  EXPECT_EQ(advisor->start(0, id, {}), Status::kBadArgument);
  EXPECT_EQ(advisor->set_aside(0, id), Status::kBadArgument);
  EXPECT_EQ(advisor->makes_room(0, id), std::nullopt);
  for (const Status status : {advisor->end(0, id + 1), advisor->start(0, id + 1, {}),
                              advisor->wait(0, id + 1), advisor->advance(0, id + 1, 1, 0)}) {
    EXPECT_EQ(status, Status::kNotFound);
  }
}

TEST(Advisor, PoliciesThatNeedTheirOwnStepsAreRefusedWithAMend) {
  std::unique_ptr<Advisor> advisor;
  std::string reason;
  EXPECT_EQ(Advisor::open("orca", {}, 4, &advisor, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("take sarathi"), std::string::npos);
  EXPECT_EQ(Advisor::open("fifo", {}, 4, &advisor, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("k_lpm"), std::string::npos);
  EXPECT_EQ(Advisor::open("sarathi", {}, 0, &advisor, &reason), Status::kBadArgument);
  EXPECT_EQ(advisor, nullptr);
}

}  // namespace
}  // namespace nearkv::scheduler::test
