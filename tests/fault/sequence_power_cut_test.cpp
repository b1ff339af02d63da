// The power fails at every moment at which it could matter to a sequence: nothing acknowledged is
// lost.
#include <gtest/gtest.h>

#include "fault/power_cut.hpp"
#include "fault/sequence_world.hpp"
#include "support/environment.hpp"
#include "support/fault_report.hpp"

namespace nearkv::test {
namespace {

std::uint64_t images() { return by_size(1200, 24000); }

constexpr std::size_t kImagesOfStep = 4;

struct SequenceVerdict : Verdict {
  std::uint64_t cold_answers = 0;  ///< Queries over compressed pages.
};

/// Opens what is in the memory, looks at it, and works on.
std::optional<std::string> judge_memory(std::span<std::byte> memory, Persistences persistences,
                                        const Sequences& before, const Sequences& after,
                                        const SequenceStep* step, Random& random, Sequences* left,
                                        std::uint64_t* cold_answers) {
  std::string wrong;
  const std::unique_ptr<Pool> pool = open_pool(memory, persistences, &wrong);
  if (pool == nullptr) return wrong;
  *left = look(pool.get(), &wrong, cold_answers);
  if (!wrong.empty()) return wrong;
  if (auto difference = compare(*left, before, after, step)) return difference;
  if (pool->usage().damaged_pages != 0) return "a page was torn";
  const SequenceStep more = random_step(*left, random);
  if (run_step(pool.get(), more) == Status::kOk) record(more, left);
  return std::nullopt;
}

std::optional<std::string> judge(const Remains& remains, const Sequences& before,
                                 const Sequences& after, const SequenceStep* step, Random& random,
                                 std::uint64_t* cold_answers) {
  const PoolMemoryBytes memory(remains.memory);
  Sequences left;
  Sequences again;
  if (remains.durable.empty()) {
    auto failure =
        judge_memory(memory.bytes(), {}, before, after, step, random, &left, cold_answers);
    if (failure || random() % 4 != 0) return failure;
    // What it did since is found again too.
    return judge_memory(memory.bytes(), {}, left, left, nullptr, random, &again, cold_answers);
  }
  // The successor of a process that died builds on what that one had not written back. Then the
  // power fails.
  PowerCut power(memory.bytes(), remains.durable);
  const Persistences both{&power, &power};
  if (auto failure =
          judge_memory(memory.bytes(), both, before, after, step, random, &left, cold_answers)) {
    return failure;
  }
  const PoolMemoryBytes later(power.image(PowerCut::Image::kOnlyFenced, random));
  return judge_memory(later.bytes(), {}, left, left, nullptr, random, &again, cold_answers);
}

enum class Who : std::uint8_t { kBoth, kHost, kDevice };

/// `careful`: who writes back and fences.
SequenceVerdict cut_power(std::uint64_t images, PowerCut::Defect defect, Who careful = Who::kBoth) {
  keep_heap();
  SequenceVerdict verdict;
  Random random = case_random(0);
  const PoolMemoryBytes memory;
  PowerCut power(memory.bytes(), defect);
  const std::unique_ptr<Persistence> careless = Persistence::make(Durability::kProcess);
  const std::unique_ptr<Pool> pool =
      create_pool(memory.bytes(), {careful == Who::kDevice ? careless.get() : &power,
                                   careful == Who::kHost ? careless.get() : &power});
  Sequences before;
  while (verdict.images < images && verdict.failures == 0) {
    std::vector<Remains> left;
    const auto some_remains = [&] {
      return power.remains(static_cast<PowerCut::Image>(random() % 3), random);
    };
    std::uint64_t events = 0;
    power.on_event([&] {
      // Steps differ much in their events: of each as many are chosen, all with the same chance.
      const std::uint64_t place = random() % ++events;
      if (left.size() < kImagesOfStep) {
        left.push_back(some_remains());
      } else if (place < kImagesOfStep) {
        left[place] = some_remains();
      }
    });
    const SequenceStep step = random_step(before, random);
    const Status status = run_step(pool.get(), step);
    power.on_event(nullptr);
    // What was acknowledged has to be there even if the power fails right away.
    left.push_back(power.remains(PowerCut::Image::kOnlyFenced, random));
    Sequences after = before;
    if (status == Status::kOk) record(step, &after);
    for (const Remains& crash : left) {
      const bool acknowledged = &crash == &left.back();
      const auto failure = judge(crash, acknowledged ? after : before, after,
                                 acknowledged ? nullptr : &step, random, &verdict.cold_answers);
      verdict.count(failure);
    }
    before = after;
  }
  return verdict;
}

TEST(SequencePowerCutTest, LosesNothingThatWasAcknowledgedAndTearsNothing) {
  const SequenceVerdict verdict = cut_power(images(), PowerCut::Defect::kNone);
  EXPECT_EQ(verdict.failures, 0U) << verdict.first_failure << "; " << case_name(0);
  EXPECT_GT(verdict.cold_answers, images() / 4) << "hardly anything was compressed";
  report_fault("power cut at a persistence point of a pool of sequences", verdict.images,
               verdict.images - verdict.failures, verdict.failures);
}

TEST(SequencePowerCutTest, ATestOfThisKindNoticesAMissingWriteBack) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kForgetsWriteBack).failures, 0U);
}

TEST(SequencePowerCutTest, ATestOfThisKindNoticesAMissingFence) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kForgetsFence).failures, 0U);
}

TEST(SequencePowerCutTest, ATestOfThisKindNoticesADeviceThatLeavesPagesInTheCaches) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kNone, Who::kHost).failures, 0U);
}

TEST(SequencePowerCutTest, ATestOfThisKindNoticesAHostThatLeavesRecordsInTheCaches) {
  EXPECT_NE(cut_power(images(), PowerCut::Defect::kNone, Who::kDevice).failures, 0U);
}

}  // namespace
}  // namespace nearkv::test
