// What holds for every retention policy: calls alike give worth alike, forks and restarts go on.
#include <gtest/gtest.h>

#include <cmath>

#include "attention.hpp"

namespace nearkv::test {
namespace {

/// A policy, and what it takes to feed it.
class RetentionPolicyTest : public testing::TestWithParam<NamedRetentionPolicy> {
 protected:
  [[nodiscard]] static std::unique_ptr<RetentionPolicy> make() {
    return retention(GetParam().name);
  }

  /// Appends a few tokens, or observes, by chance; the same on all of `policies`, which are alike.
  static void act(Random& random, std::initializer_list<RetentionPolicy*> policies) {
    const std::uint32_t tokens = (*policies.begin())->tokens();
    if (tokens == 0 || random() % 4 == 0) {
      std::vector<std::uint64_t> sketches(pick(random, 1, 40));
      for (std::uint64_t& sketch : sketches) sketch = random();
      const auto count = static_cast<std::uint32_t>(sketches.size());
      for (RetentionPolicy* policy : policies) {
        ASSERT_EQ(policy->append(count, sketches), Status::kOk);
      }
      return;
    }
    const Attention attention = random_attention(random, pick(random, 0, tokens - 1));
    for (RetentionPolicy* policy : policies) {
      ASSERT_EQ(policy->observe(attention.seen()), Status::kOk);
    }
  }
};

TEST_P(RetentionPolicyTest, TheSameCallsMakeTheSameWorth) {
  Random random = case_random(1);
  const auto one = make(), other = make();
  for (int i = 0; i < 200; ++i) act(random, {one.get(), other.get()});
  EXPECT_EQ(worth_of(*one), worth_of(*other));
  for (const float worth : worth_of(*one)) EXPECT_TRUE(std::isfinite(worth));
}

TEST_P(RetentionPolicyTest, ARestartGoesOn) {
  Random random = case_random(2);
  const auto before = make(), after = make();
  for (int i = 0; i < 100; ++i) act(random, {before.get()});
  ASSERT_EQ(after->restore(before->save()), Status::kOk);
  EXPECT_EQ(after->tokens(), before->tokens());
  for (int i = 0; i < 100; ++i) act(random, {before.get(), after.get()});
  EXPECT_EQ(worth_of(*before), worth_of(*after));
}

TEST_P(RetentionPolicyTest, AForkOfAllTokensGoesOnAsItsParent) {
  Random random = case_random(3);
  const auto parent = make();
  for (int i = 0; i < 100; ++i) act(random, {parent.get()});
  const auto child = parent->fork(parent->tokens());
  ASSERT_NE(child, nullptr);
  for (int i = 0; i < 100; ++i) act(random, {parent.get(), child.get()});
  EXPECT_EQ(worth_of(*parent), worth_of(*child));
}

TEST_P(RetentionPolicyTest, AForkOfAPrefixIsWhatThePrefixWasWhereNobodyAskedForMore) {
  Random random = case_random(4);
  const auto parent = make(), prefix = make();
  while (parent->tokens() < 100) act(random, {parent.get(), prefix.get()});
  const std::vector<std::uint64_t> more(50, 0x0123456789ABCDEF);
  ASSERT_EQ(parent->append(50, more), Status::kOk);
  const auto child = parent->fork(prefix->tokens());
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(worth_of(*child), worth_of(*prefix));
}

TEST_P(RetentionPolicyTest, WhatAForkDoesItsParentDoesNotSee) {
  Random random = case_random(5);
  const auto parent = make();
  for (int i = 0; i < 100; ++i) act(random, {parent.get()});
  const std::vector<float> before = worth_of(*parent);
  const auto child = parent->fork(parent->tokens() / 2);
  for (int i = 0; i < 100; ++i) act(random, {child.get()});
  EXPECT_EQ(worth_of(*parent), before);
  EXPECT_EQ(parent->fork(parent->tokens() + 1), nullptr);
}

TEST_P(RetentionPolicyTest, ForksRestartsAndStepsInAnyOrderAgreeWithARecordOfTheCalls) {
  // Each policy beside one that is made anew from the same calls, without forks and restarts.
  for (std::uint64_t number = 0; number < 20; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(100 + number);
    std::vector<std::pair<std::unique_ptr<RetentionPolicy>, std::vector<std::uint64_t>>> pairs;
    pairs.emplace_back(make(), std::vector<std::uint64_t>{});
    for (int step = 0; step < 60; ++step) {
      auto& [policy, seeds] = pairs[random() % pairs.size()];
      switch (random() % 8) {
        case 0: {
          auto child = policy->fork(policy->tokens());
          auto copy = seeds;
          pairs.emplace_back(std::move(child), std::move(copy));
          break;
        }
        case 1: {
          auto again = make();
          ASSERT_EQ(again->restore(policy->save()), Status::kOk);
          policy = std::move(again);
          break;
        }
        default: {
          seeds.push_back(random());
          Random step_random(seeds.back());
          act(step_random, {policy.get()});
        }
      }
    }
    for (const auto& [policy, seeds] : pairs) {
      const auto plain = make();
      for (const std::uint64_t seed : seeds) {
        Random step_random(seed);
        act(step_random, {plain.get()});
      }
      EXPECT_EQ(worth_of(*policy), worth_of(*plain));
    }
  }
}

TEST_P(RetentionPolicyTest, WrongObservationsChangeNothing) {
  const auto policy = make();
  const std::vector<std::uint64_t> sketches(4, 7);
  ASSERT_EQ(policy->append(4, sketches), Status::kOk);
  ASSERT_EQ(policy->observe(attention_to({0.5F, 0.25F, 0.25F, 0}).seen()), Status::kOk);
  const std::vector<float> before = worth_of(*policy);
  Attention wrong = attention_to({0, 0, 0, 1});
  wrong.position = 4;  // There is no such token.
  EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument);
  wrong = attention_to({0, 0, 0, 1});
  wrong.ids[0] = 4;
  EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument);
  wrong = attention_to({0, 0, 0, 1});
  wrong.position = 2;  // It saw no token behind it.
  EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument);
  for (const float mass : {-0.1F, 1.1F, NAN, INFINITY}) {
    wrong = attention_to({0, 0, 0, mass});
    EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument) << mass;
  }
  wrong = attention_to({0, 0, 0, 1});
  wrong.counts[0] = 5;
  EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument);
  wrong = attention_to({0, 0, 0, 1});
  wrong.mass.pop_back();
  EXPECT_EQ(policy->observe(wrong.seen()), Status::kBadArgument);
  EXPECT_EQ(policy->append(2, std::vector<std::uint64_t>(3)), Status::kBadArgument);
  EXPECT_EQ(worth_of(*policy), before);
}

TEST_P(RetentionPolicyTest, TokensWithoutSketchesAreRefusedOnlyWhereTheyAreNeeded) {
  const auto policy = make();
  const bool sketched = policy->needs().key_sketches;
  EXPECT_EQ(policy->append(4, {}), sketched ? Status::kUnsupported : Status::kOk);
  if (sketched) {
    EXPECT_EQ(policy->append(4, std::vector<std::uint64_t>(4)), Status::kOk);
  }
}

TEST_P(RetentionPolicyTest, SavedBytesOfAnythingElseAreRefused) {
  Random random = case_random(6);
  const auto policy = make();
  for (int i = 0; i < 50; ++i) act(random, {policy.get()});
  const std::vector<std::byte> saved = policy->save();
  const std::vector<float> before = worth_of(*policy);
  for (std::size_t bytes = 0; bytes < saved.size(); bytes += 1 + bytes / 8) {
    EXPECT_EQ(policy->restore(std::span(saved).first(bytes)), Status::kBadArgument);
  }
  for (const NamedRetentionPolicy& other : shipped_retention_policies()) {
    if (other.name == policy->name()) continue;
    EXPECT_EQ(policy->restore(retention(other.name)->save()), Status::kBadArgument) << other.name;
  }
  for (const Parameter& parameter : GetParam().parameters) {
    const float changed = parameter.value == parameter.least ? parameter.most : parameter.least;
    const auto other = retention(policy->name(), {{std::string(parameter.name), changed}});
    EXPECT_EQ(policy->restore(other->save()), Status::kBadArgument) << parameter.name;
    EXPECT_EQ(other->restore(other->fork(0)->save()), Status::kOk) << parameter.name;
  }
  for (int i = 0; i < 500; ++i) {
    std::vector<std::byte> flipped = saved;
    flipped[random() % flipped.size()] ^= std::byte(1U << (random() % 8));
    EXPECT_EQ(policy->restore(flipped), Status::kBadArgument);
  }
  EXPECT_EQ(worth_of(*policy), before);
}

TEST_P(RetentionPolicyTest, StateIsAsLargeAsItSays) {
  const auto few = make(), many = make();
  ASSERT_EQ(few->append(100, std::vector<std::uint64_t>(100)), Status::kOk);
  ASSERT_EQ(many->append(1100, std::vector<std::uint64_t>(1100)), Status::kOk);
  EXPECT_EQ(many->save().size() - few->save().size(), 1000 * many->state_bytes_per_token());
  EXPECT_LE(many->state_bytes_per_token(), 16U);
}

TEST_P(RetentionPolicyTest, ParametersAreNamedAndBounded) {
  std::unique_ptr<RetentionPolicy> policy;
  std::string reason;
  const auto make_with = [&](const Parameters& parameters) {
    return make_retention_policy(GetParam().name, parameters, &policy, &reason);
  };
  EXPECT_EQ(make_with({{"frobs", 1.0F}}), Status::kBadArgument);
  EXPECT_NE(reason.find("frobs"), std::string::npos) << reason;
  for (const Parameter& parameter : GetParam().parameters) {
    EXPECT_EQ(make_with({{std::string(parameter.name), parameter.value}}), Status::kOk);
    EXPECT_EQ(make_with({{std::string(parameter.name), parameter.least - 1}}),
              Status::kBadArgument);
    EXPECT_EQ(make_with({{std::string(parameter.name), NAN}}), Status::kBadArgument);
    EXPECT_NE(reason.find(parameter.name), std::string::npos) << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, RetentionPolicyTest,
                         testing::ValuesIn(shipped_retention_policies().begin(),
                                           shipped_retention_policies().end()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(RetentionPolicyNameTest, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  std::unique_ptr<RetentionPolicy> policy;
  std::string reason;
  EXPECT_EQ(make_retention_policy("h20", {}, &policy, &reason), Status::kBadArgument);
  for (const NamedRetentionPolicy& named : shipped_retention_policies()) {
    EXPECT_NE(reason.find(named.name), std::string::npos) << reason;
  }
}

}  // namespace
}  // namespace nearkv::test
