// The power fails at every moment at which it could matter: nothing acknowledged is lost.
#include "fault/power_cut.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "fault/store_world.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"

namespace nearkv::test {
namespace {

std::uint64_t images() { return by_size(1500, 60000); }

/// The successor of a process that died serves what that one had not written back. Then the power
/// fails: what was served is there.
std::optional<std::string> judge_successor(Remains remains, const Held& before, const Held& after,
                                           const Done* done, Random& random) {
  std::string wrong;
  auto owned = std::make_unique<PowerCut>(remains.memory, std::move(remains.durable));
  PowerCut& power = *owned;
  const auto store = open_world(remains.memory, &wrong, std::move(owned));
  if (store == nullptr) return wrong;
  const Held served = look(store.get(), &wrong);
  if (!wrong.empty()) return wrong;
  if (auto difference = compare(served, before, after, done)) return difference;
  // Half of them work on first: nothing comes back into room that is another's by now.
  const bool works_on = random() % 2 == 0;
  if (works_on) run_step(store.get(), random_step(random));
  const Held left = works_on ? look(store.get(), &wrong) : served;
  std::vector<std::byte> image = power.image(PowerCut::Image::kOnlyFenced, random);
  const auto later = open_world(image, &wrong);
  if (later == nullptr) return wrong;
  const Held again = look(later.get(), &wrong);
  return wrong.empty() ? compare(again, left, left) : wrong;
}

/// Opens what a crash left, and judges it.
std::optional<std::string> judge(Remains remains, const Held& before, const Held& after,
                                 const Done* done, Random& random) {
  if (!remains.durable.empty()) {
    return judge_successor(std::move(remains), before, after, done, random);
  }
  std::vector<std::byte>& image = remains.memory;
  std::string wrong;
  std::unique_ptr<ObjectStore> store = open_world(image, &wrong);
  if (store == nullptr) return wrong;
  const Held found = look(store.get(), &wrong);
  if (!wrong.empty()) return wrong;
  if (auto difference = compare(found, before, after, done)) return difference;
  // It goes on working, and what it does then is found again too.
  if (random() % 8 != 0) return std::nullopt;
  run_step(store.get(), random_step(random));
  const Held more = look(store.get(), &wrong);
  store.reset();
  store = open_world(image, &wrong);
  if (store == nullptr) return wrong;
  const Held again = look(store.get(), &wrong);
  return wrong.empty() ? compare(again, more, more) : wrong;
}

Verdict cut_power(std::uint64_t images, PowerCut::Defect defect) {
  Verdict verdict;
  Random random = case_random(0);
  std::vector<std::byte> memory(kWorldBytes);
  auto owned = std::make_unique<PowerCut>(memory, defect);
  PowerCut& power = *owned;
  const std::unique_ptr<ObjectStore> store = create_world(memory, std::move(owned));
  std::string wrong;
  Held before = look(store.get(), &wrong);
  while (verdict.images < images && verdict.failures == 0) {
    std::vector<Remains> left;
    power.on_event([&] {
      // Large objects have many events; a few images of each step stand for the rest.
      if (random() % 4 != 0) return;
      left.push_back(power.remains(static_cast<PowerCut::Image>(random() % 3), random));
    });
    const Done done = run_step(store.get(), random_step(random));
    power.on_event(nullptr);
    // What was acknowledged has to be there even if the power fails right away.
    left.push_back(power.remains(PowerCut::Image::kOnlyFenced, random));
    const Held after = look(store.get(), &wrong);
    EXPECT_EQ(wrong, "");
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool acknowledged = i + 1 == left.size();
      const auto failure = acknowledged ? judge(std::move(left[i]), after, after, nullptr, random)
                                        : judge(std::move(left[i]), before, after, &done, random);
      verdict.count(failure);
    }
    before = after;
  }
  return verdict;
}

TEST(PowerCutTest, LosesNothingThatWasAcknowledgedAndTearsNothing) {
  const Verdict verdict = cut_power(images(), PowerCut::Defect::kNone);
  EXPECT_EQ(verdict.failures, 0U) << verdict.first_failure << "; " << case_name(0);
  report_fault("power cut at a persistence point", verdict.images,
               verdict.images - verdict.failures, verdict.failures);
}

TEST(PowerCutTest, LosesNoObjectWhosePartsCameFromSeveralThreads) {
  std::vector<std::byte> memory(kWorldBytes);
  auto owned = std::make_unique<PowerCut>(memory);
  PowerCut& power = *owned;
  const std::unique_ptr<ObjectStore> store = create_world(memory, std::move(owned));
  const Bytes data = contents(1, 4 * 8192);
  const auto set_half = [&](std::uint16_t first) {
    EXPECT_EQ(set_parts(store.get(), 0, key_of(1), data, 4, first, 2), Status::kOk) << first;
  };
  std::thread(set_half, std::uint16_t{0}).join();
  set_half(2);
  Random random = case_random(0);
  std::vector<std::byte> left = power.image(PowerCut::Image::kOnlyFenced, random);
  std::string reason;
  const std::unique_ptr<ObjectStore> found = open_world(left, &reason);
  ASSERT_NE(found, nullptr) << reason;
  Bytes bytes;
  EXPECT_EQ(get(found.get(), 0, key_of(1), &bytes), Status::kOk);
  EXPECT_TRUE(bytes == data);
}

TEST(PowerCutTest, ATestOfThisKindNoticesAMissingWriteBack) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kForgetsWriteBack).failures, 0U);
}

TEST(PowerCutTest, ATestOfThisKindNoticesAPayloadThatStaysInTheCaches) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kForgetsStreamed).failures, 0U);
}

TEST(PowerCutTest, ATestOfThisKindNoticesAMissingFence) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kForgetsFence).failures, 0U);
}

}  // namespace
}  // namespace nearkv::test
