// The inline path carries what host and engine ask for: data, poison and errors arrive, whoever is
// slow; doorbells are heard; nothing of before a reset comes after it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "inline_path.hpp"

namespace nearkv::rtl_test {
namespace {

using test::Random;

constexpr std::uint64_t kAllBytes = ~std::uint64_t{0};
// Few lines, so that accesses meet; far apart, so that all bits of addresses count.
constexpr std::uint64_t kHostLines = 256;
constexpr std::uint64_t kNearBase = std::uint64_t{0x5a5a5} << 26U;
constexpr std::uint64_t kNearLines = 512;

/// Queues some random accesses of both sides, on lines of their own.
void add_traffic(InlinePath& path, Random& random, bool with_errors) {
  const std::uint64_t host_base = with_errors && random() % 64 == 0 ? kMemoryEnd : 0;
  const std::uint64_t line = host_base + random() % kHostLines * kBurstBytes;
  if (random() % 2 == 0) {
    path.host_read(line);
  } else {
    path.host_write(line, random_line(random), random() % 3 == 0 ? random() : kAllBytes);
  }
  const std::uint64_t near_base = with_errors && random() % 64 == 0 ? kMemoryEnd * 2 : kNearBase;
  const unsigned beats = test::pick(random, 1, 16);
  const std::uint64_t first = near_base + random() % (kNearLines - beats) * kBurstBytes;
  const auto port = static_cast<unsigned>(random() % kPorts);
  if (random() % 4 != 0) {
    path.near_read(first, beats, port);
  } else {
    path.near_write(first, random_line(random), port);
  }
}

TEST(InlineTrafficTest, EveryAnswerIsWhatWasWrittenBefore) {
  std::uint64_t poisoned = 0;
  std::uint64_t errors = 0;
  for (std::uint64_t number = 0; number < 24; ++number) {
    SCOPED_TRACE(test::case_name(number));
    Random random = test::case_random(number);
    InlinePath path(number);
    path.set_manner({.host_pace = kPaces[number % 3],
                     .answer_pace = kPaces[number / 3 % 3],
                     .near_pace = kPaces[random() % 3],
                     .memory_pace = kPaces[random() % 3],
                     .latency = test::pick(random, 1, 60),
                     .jitter = number % 4 == 0 ? 0 : test::pick(random, 1, 100)});
    path.ports().control_share_i = static_cast<std::uint8_t>(random() % 16);
    path.ports().control_age_cycles_i = static_cast<std::uint16_t>(random() % 100);
    path.ports().control_near_least_i = static_cast<std::uint16_t>(random() % 40);
    path.ports().control_read_limit_i = static_cast<std::uint16_t>(random() % 140);
    path.ports().control_write_limit_i = static_cast<std::uint16_t>(random() % 70);
    for (unsigned i = 0; i < 3000; ++i) {
      add_traffic(path, random, true);
      path.cycle();
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(path.drain());
    poisoned += path.poisoned_answers;
    errors += path.error_answers;
  }
  EXPECT_GT(poisoned, 1000U);
  EXPECT_GT(errors, 100U);
}

// A line that two addresses shared would come back as the one that was written last.
TEST(InlineTrafficTest, EveryLineThatTheHostIsDealtHasAPlaceOfItsOwn) {
  constexpr unsigned kLines = 64;
  Random random = test::case_random(200);
  InlinePath path;
  for (unsigned i = 0; i < kLines; ++i) {
    path.host_write(i * kBurstBytes, random_line(random), kAllBytes);
  }
  ASSERT_TRUE(path.drain());
  for (unsigned i = 0; i < kLines; ++i) {
    path.host_read(i * kBurstBytes);
    path.near_read(i * kBurstBytes, 1);
  }
  ASSERT_TRUE(path.drain());
  EXPECT_EQ(path.host_read_cycles.size(), kLines);
  EXPECT_EQ(path.near_answers, kLines);
}

TEST(InlineTrafficTest, NothingOfBeforeAResetComesAfterIt) {
  Random random = test::case_random(100);
  InlinePath path(100);
  for (unsigned round = 0; round < 20; ++round) {
    path.set_manner({.host_pace = 5,
                     .answer_pace = round % 2 == 0 ? 1U : 8U,
                     .memory_pace = 5,
                     .latency = 30,
                     .jitter = 50});
    for (unsigned i = test::pick(random, 20, 300); i > 0; --i) {
      add_traffic(path, random, false);
      path.cycle();
    }
    path.reset();
    path.cycles(3);
    for (unsigned i = 0; i < 200; ++i) {
      add_traffic(path, random, false);
      path.cycle();
      if (testing::Test::HasFailure()) return;
    }
    path.set_manner({});
    ASSERT_TRUE(path.drain());
  }
}

TEST(InlineTrafficTest, AHostThatTakesNoAnswersDoesNotHoldUpTheEngine) {
  InlinePath path;
  path.set_manner({.answer_pace = 0});
  for (unsigned i = 0; i < 4 * kHostCredits; ++i) {
    path.host_read(line_in_slice(0, i));
    path.host_write(line_in_slice(0, 1000 + i), {}, kAllBytes);
  }
  path.cycles(400);
  // What may be in flight is, and no more.
  EXPECT_EQ(path.reads_taken[0].size(), kHostCredits);
  EXPECT_EQ(path.writes_taken[0].size(), kHostCredits);
  path.clear_records();
  for (unsigned i = 0; i < 2000; ++i) {
    if (path.near_reads_queued() < 4) path.near_read(kNearBase + i % 8 * 1024, 16);
    path.cycle();
  }
  EXPECT_GE(path.near_answers, 1900U);  // A burst in nearly every cycle.
  path.set_manner({});
  EXPECT_TRUE(path.drain());
}

TEST(InlineTrafficTest, NearDataMovesABurstPerCycleAcrossSlices) {
  InlinePath path;
  path.set_manner({.latency = 60});
  const auto run = [&path](unsigned cycles) {
    for (unsigned i = 0; i < cycles; ++i) {
      if (path.near_reads_queued() < 4) path.near_read(kNearBase + i % 16 * 1024, 16);
      path.cycle();
    }
  };
  run(200);
  path.clear_records();
  run(2000);
  // Where slices answer at once more than one port takes, some wait, but none is lost.
  EXPECT_GE(path.near_answers, 1990U);
}

TEST(InlineTrafficTest, DoorbellsAreHeardWithWhatTheyBring) {
  constexpr std::uint64_t kBase = (std::uint64_t{3} << 40U) + 128;
  constexpr std::uint16_t kEnabled = 0b1011'0110'1111'0101;
  Random random = test::case_random(7);
  InlinePath path(7);
  path.ports().doorbells_base_i = kBase;
  path.ports().doorbells_enable_i = kEnabled;
  path.set_manner({.host_pace = 5, .answer_pace = 5, .memory_pace = 5, .jitter = 20});
  std::array<std::vector<InlinePath::Doorbell>, kSlices> expected;
  for (unsigned i = 0; i < 8000; ++i) {
    // The first and last two pages, and the second line of each, are nobody's.
    const std::uint64_t page = random() % 20;
    const std::uint64_t line = random() % 8 == 0 ? 1 : 0;
    const std::uint64_t address =
        kBase + (page - 2) * NKV_DOORBELL_STRIDE_BYTES + line * kBurstBytes;
    const std::uint64_t strobes = random() % 2 == 0 ? random() : kAllBytes;
    const Line written = random_line(random);
    if (random() % 4 == 0) {
      path.host_read(address);
    } else if (path.host_write(address, written, strobes)) {
      const bool rings = line == 0 && page >= 2 && page < 18 && (kEnabled >> (page - 2) & 1) != 0 &&
                         !written.poison;
      nkv_doorbell_line bytes{};
      std::memcpy(&bytes, written.data.data(), sizeof(bytes));
      InlinePath::Doorbell doorbell{
          .index = static_cast<unsigned>(page - 2), .tail = {}, .head = {}};
      if ((strobes & 3U) == 3) doorbell.tail = bytes.sq_tail;
      if ((strobes >> 8U & 3U) == 3) doorbell.head = bytes.cq_head;
      if (rings && (doorbell.tail || doorbell.head)) {
        expected.at(slice_of(address)).push_back(doorbell);
      }
    }
    // The engine's writes ring no bell.
    path.near_write(kBase + random() % 16 * NKV_DOORBELL_STRIDE_BYTES, {});
    path.cycle();
  }
  ASSERT_TRUE(path.drain());
  std::size_t rung = 0;
  for (unsigned i = 0; i < kSlices; ++i) {
    EXPECT_EQ(path.doorbells.at(i), expected.at(i)) << "slice " << i;
    rung += expected.at(i).size();
  }
  EXPECT_GT(rung, 300U);
}

}  // namespace
}  // namespace nearkv::rtl_test
