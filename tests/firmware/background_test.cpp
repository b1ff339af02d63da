// What goes on after its command was answered: scans, sanitize, and beside them the scrub.
#include <gtest/gtest.h>

#include "card.hpp"

namespace nearkv::testing {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kHourNs = 3'600'000'000'000;

Payload scan(std::uint64_t first, std::uint64_t bytes, unsigned flags = 0) {
  return range(first, bytes).number(flags, 1);
}
bool runs(Card& card) {
  return (card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(0, 1) & 1) != 0;
}
void finish(Card& card) {
  while (runs(card)) card.turn();
}
std::uint64_t failures(Card& card) {
  return card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(2, 1)).number(20, 2);
}

TEST(Identify, TellsWhatTheComponentIs) {
  Card card;
  const Answer answer = card.execute(NKV_CCI_OPCODE_IDENTIFY);
  EXPECT_EQ(answer.number(8, 8), 7U) << "its serial number";
  EXPECT_EQ(1U << answer.number(16, 1), unsigned{NKV_MAILBOX_BYTES});
  EXPECT_EQ(answer.number(17, 1), 3U) << "a type 3 device";
}

TEST(Scan, FindsPoisonThatNobodyKnewOf) {
  Card card;
  card.turn();  // The scrub's first slice.
  card.poisoned = {0, 4096, Card::kMemoryBytes - kLine};
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_SCAN_RESULTS).status, NKV_CCI_STATUS_UNSUPPORTED);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, scan(0, Card::kMemoryBytes)).status,
            NKV_CCI_STATUS_BACKGROUND_STARTED);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, scan(0, kLine)).status, NKV_CCI_STATUS_BUSY);
  std::uint64_t percent = 0;
  while (runs(card)) {
    const std::uint64_t now = card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(0, 1) >> 1;
    EXPECT_GE(now, percent);
    percent = now;
    card.turn();
  }
  const Answer background = card.execute(NKV_CCI_OPCODE_GET_BACKGROUND);
  EXPECT_EQ(background.number(0, 1) >> 1, 100U);
  EXPECT_EQ(background.number(2, 2), NKV_CCI_OPCODE_SCAN_MEDIA);
  EXPECT_EQ(background.number(4, 2), NKV_CCI_STATUS_SUCCESS);
  const Answer results = card.execute(NKV_CCI_OPCODE_GET_SCAN_RESULTS);
  EXPECT_EQ(results.number(16, 1), 0U) << "neither more nor stopped";
  ASSERT_EQ(results.number(18, 2), 3U);
  EXPECT_EQ(results.number(32 + 16, 8), 4096U | 2U);
  EXPECT_EQ(failures(card), 3U);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_POISON, range(0, Card::kMemoryBytes)).number(10, 2),
            3U);
}

TEST(Scan, StopsWhereItHasNoRoomAndSaysWhereToGoOn) {
  Card card;
  card.turn();
  for (std::uint64_t i = 0; i < NKV_SCAN_RECORDS + 2; ++i) card.poisoned.insert(i * 128);
  card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, scan(0, 1 << 20, 1));
  finish(card);
  EXPECT_EQ(failures(card), 0U) << "it was to be silent";
  unsigned records = 0;
  Answer results = card.execute(NKV_CCI_OPCODE_GET_SCAN_RESULTS);
  records += static_cast<unsigned>(results.number(18, 2));
  while ((results.number(16, 1) & 1) != 0) {
    results = card.execute(NKV_CCI_OPCODE_GET_SCAN_RESULTS);
    records += static_cast<unsigned>(results.number(18, 2));
  }
  EXPECT_EQ(records, unsigned{NKV_SCAN_RECORDS});
  EXPECT_EQ(results.number(16, 1), 2U) << "stopped";
  EXPECT_EQ(results.number(0, 8), NKV_SCAN_RECORDS * 128ULL);
  EXPECT_EQ(results.number(8, 8) * kLine, (1 << 20) - NKV_SCAN_RECORDS * 128ULL);
}

TEST(Scan, CanBeEnded) {
  Card card;
  card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, scan(0, Card::kMemoryBytes));
  card.turn();
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_ABORT_BACKGROUND).status, NKV_CCI_STATUS_SUCCESS);
  card.turn();
  EXPECT_FALSE(runs(card));
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(4, 2), NKV_CCI_STATUS_ABORTED);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_SCAN_RESULTS).status, NKV_CCI_STATUS_UNSUPPORTED);
}

TEST(Scan, RefusesRangesThatAreNotThere) {
  Card card;
  const auto status = [&](const Payload& payload) {
    return card.execute(NKV_CCI_OPCODE_SCAN_MEDIA, payload).status;
  };
  EXPECT_EQ(status(scan(1, kLine)), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(status(scan(0, 0)), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(status(scan(0, kLine, 2)), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(status(scan(Card::kMemoryBytes, kLine)), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  EXPECT_EQ(status(scan(kLine, Card::kMemoryBytes)), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  EXPECT_EQ(status(Payload().number(0, 8).number(~0ULL, 8).zeros(1)),
            NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_SCAN_CAPABILITIES, range(0, 0)).status,
            NKV_CCI_STATUS_INVALID_INPUT);
}

TEST(Sanitize, WipesAllAndEndsAllPoison) {
  Card card;
  card.turn();
  card.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(4096, 8));
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_SANITIZE).status, NKV_CCI_STATUS_BACKGROUND_STARTED);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(64, 8)).status,
            NKV_CCI_STATUS_MEDIA_DISABLED);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_ABORT_BACKGROUND).status,
            NKV_CCI_STATUS_REQUEST_ABORT_NOT_SUPPORTED);
  finish(card);
  EXPECT_EQ(card.wiped_bytes, Card::kMemoryBytes);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_POISON, range(0, Card::kMemoryBytes)).number(10, 2),
            0U);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(64, 8)).status,
            NKV_CCI_STATUS_SUCCESS);
}

TEST(Sanitize, SaysThatItFailed) {
  Card card;
  card.execute(NKV_CCI_OPCODE_SANITIZE);
  card.media_answers = false;
  finish(card);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_BACKGROUND).number(4, 2),
            NKV_CCI_STATUS_INTERNAL_ERROR);
}

TEST(Scrub, SeesAllOfTheMemoryInItsTime) {
  Card card;
  card.poisoned = {Card::kMemoryBytes / 2, Card::kMemoryBytes - kLine};
  const std::uint64_t slices = Card::kMemoryBytes >> 20;
  card.turn();  // Its self-test.
  unsigned turns = 0;
  for (std::uint64_t i = 0; i <= slices; ++i) {
    card.uptime_ns = i * (12 * kHourNs / slices);
    while (card.turn()) ++turns;
  }
  EXPECT_EQ(failures(card), 2U);
  EXPECT_LE(turns, slices + 3) << "a slice at a time, and the rest of one behind poison";
}

}  // namespace
}  // namespace nearkv::testing
