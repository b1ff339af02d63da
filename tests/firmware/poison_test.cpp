// The firmware's list of poisoned lines against the memory itself.
#include <gtest/gtest.h>

#include <random>

#include "card.hpp"

namespace nearkv::testing {
namespace {

constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kRecordBytes = 16;
constexpr std::uint64_t kLine = 64;

nkv_cci_status inject(Card& card, std::uint64_t address) {
  return card.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(address, 8)).status;
}

nkv_cci_status clear(Card& card, std::uint64_t address) {
  return card.execute(NKV_CCI_OPCODE_CLEAR_POISON, Payload().number(address, 8).zeros(kLine))
      .status;
}

/// All lines of the range that the firmware lists, however many commands that takes.
std::set<std::uint64_t> listed(Card& card, std::uint64_t first, std::uint64_t bytes) {
  std::set<std::uint64_t> lines;
  for (bool more = true; more;) {
    const Answer answer = card.execute(NKV_CCI_OPCODE_GET_POISON, range(first, bytes));
    EXPECT_EQ(answer.status, NKV_CCI_STATUS_SUCCESS);
    more = (answer.number(0, 1) & 1) != 0;
    for (std::size_t i = 0; i < answer.number(10, 2); ++i) {
      const std::size_t at = kHeaderBytes + i * kRecordBytes;
      const std::uint64_t address = answer.number(at, 8) & ~(kLine - 1);
      for (std::uint64_t line = 0; line < answer.number(at + 8, 4); ++line) {
        EXPECT_TRUE(lines.insert(address + line * kLine).second) << "twice";
      }
    }
  }
  return lines;
}

TEST(Poison, IsListedForWhatHappensInAnyOrder) {
  std::mt19937_64 random(1);
  Card card;
  std::set<std::uint64_t> expected;
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::uint64_t address = random() % 100 * kLine;
    switch (random() % 3) {
      case 0:
        card.poisoned.insert(address);
        card.fail({{address, false}});
        expected.insert(address);
        break;
      case 1: {
        const nkv_cci_status status = inject(card, address);
        if (status == NKV_CCI_STATUS_SUCCESS) expected.insert(address);
        break;
      }
      default:
        EXPECT_EQ(clear(card, address), NKV_CCI_STATUS_SUCCESS);
        expected.erase(address);
    }
    ASSERT_EQ(card.poisoned, expected);
    const std::uint64_t first = random() % 100 * kLine;
    const std::uint64_t bytes = random() % 100 * kLine;
    ASSERT_EQ(listed(card, first, bytes),
              (std::set<std::uint64_t>(expected.lower_bound(first),
                                       expected.lower_bound(first + bytes))));
  }
}

TEST(Poison, OfNeighboursIsOneRecordIfItCameFromOneSource) {
  Card card;
  card.fail({{0, false}, {64, false}});
  inject(card, 128);
  const Answer list = card.execute(NKV_CCI_OPCODE_GET_POISON, range(0, 256));
  ASSERT_EQ(list.number(10, 2), 2U);
  EXPECT_EQ(list.number(kHeaderBytes, 8), 0U | POISON_INTERNAL);
  EXPECT_EQ(list.number(kHeaderBytes + 8, 4), 2U);
  EXPECT_EQ(list.number(kHeaderBytes + kRecordBytes, 8), 128U | POISON_INJECTED);
  EXPECT_EQ(list.number(kHeaderBytes + kRecordBytes + 8, 4), 1U);
}

TEST(Poison, OfALongListIsReadInParts) {
  Card card;
  std::set<std::uint64_t> expected;
  for (std::uint64_t i = 0; i < NKV_POISON_RECORDS; ++i) {
    card.fail({{i * 128, false}});
    expected.insert(i * 128);
  }
  EXPECT_EQ(listed(card, 0, Card::kMemoryBytes), expected);
  EXPECT_EQ(listed(card, 0, Card::kMemoryBytes), expected) << "and again from the start";
}

TEST(Poison, ThatTheListHasNoRoomForIsTold) {
  Card card;
  for (std::uint64_t i = 0; i < NKV_POISON_RECORDS; ++i) card.fail({{i * 64, false}});
  const Payload all = range(0, Card::kMemoryBytes);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_POISON, all).number(0, 1), 0U);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).number(0, 1), 0U);
  card.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, Payload().number(77, 8));
  card.fail({{1 << 20, false}});
  const Answer list = card.execute(NKV_CCI_OPCODE_GET_POISON, all);
  EXPECT_EQ(list.number(0, 1), 2U) << "overflow";
  EXPECT_EQ(list.number(2, 8), 77U);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).number(0, 1), 1U) << "maintenance needed";
  EXPECT_EQ(inject(card, 2 << 20), NKV_CCI_STATUS_INJECT_POISON_LIMIT);
}

TEST(Poison, MayBeInjectedSoOften) {
  Card card;
  for (std::uint64_t i = 0; i < NKV_INJECTED_POISON; ++i) {
    ASSERT_EQ(inject(card, i * kLine), NKV_CCI_STATUS_SUCCESS);
  }
  EXPECT_EQ(inject(card, 1 << 20), NKV_CCI_STATUS_INJECT_POISON_LIMIT);
  EXPECT_FALSE(card.poisoned.contains(1 << 20));
  EXPECT_EQ(inject(card, 0), NKV_CCI_STATUS_SUCCESS) << "it is already";
  EXPECT_EQ(clear(card, 0), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(inject(card, 1 << 20), NKV_CCI_STATUS_SUCCESS);
}

TEST(Poison, OutsideOfMemoryOrBetweenLinesIsRefused) {
  Card card;
  for (const auto& command : {inject, clear}) {
    EXPECT_EQ(command(card, 32), NKV_CCI_STATUS_INVALID_INPUT);
    EXPECT_EQ(command(card, Card::kMemoryBytes), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
    EXPECT_EQ(command(card, ~63ULL), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  }
  const auto list = [&](const Payload& payload) {
    return card.execute(NKV_CCI_OPCODE_GET_POISON, payload).status;
  };
  EXPECT_EQ(list(range(32, 64)), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(list(range(0, Card::kMemoryBytes + 64)), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  EXPECT_EQ(list(range(64, Card::kMemoryBytes)), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
  EXPECT_EQ(list(Payload().number(0, 8).number(~0ULL, 8)), NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS);
}

TEST(Poison, IsNotListedWhereTheMemoryDidNotTakeIt) {
  Card card;
  card.media_answers = false;
  EXPECT_EQ(inject(card, 0), NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_TRUE(listed(card, 0, Card::kMemoryBytes).empty());
  card.media_answers = true;
  EXPECT_EQ(inject(card, 0), NKV_CCI_STATUS_SUCCESS);
  card.media_answers = false;
  EXPECT_EQ(clear(card, 0), NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(listed(card, 0, Card::kMemoryBytes).size(), 1U);
}

}  // namespace
}  // namespace nearkv::testing
