// The firmware's event logs: nothing is forgotten that the host has not read.
#include <gtest/gtest.h>

#include "card.hpp"

namespace nearkv::testing {
namespace {

constexpr unsigned kFailure = 2;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kRecordBytes = 128;

Answer read_log(Card& card, unsigned log = kFailure) {
  return card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(log, 1));
}

std::vector<std::uint64_t> handles(const Answer& log) {
  std::vector<std::uint64_t> found;
  for (std::size_t i = 0; i < log.number(20, 2); ++i) {
    found.push_back(log.number(kHeaderBytes + i * kRecordBytes + 20, 2));
  }
  return found;
}

nkv_cci_status clear(Card& card, const std::vector<std::uint64_t>& which) {
  Payload payload;
  payload.number(kFailure, 1).zeros(1).number(which.size(), 1).zeros(3);
  for (const std::uint64_t handle : which) payload.number(handle, 2);
  return card.execute(NKV_CCI_OPCODE_CLEAR_EVENT_RECORDS, payload).status;
}

TEST(Events, SayWhichLineFailedAndWhen) {
  Card card;
  card.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, Payload().number(9'000, 8));
  card.fail({{0x1000, false}});
  const Answer log = read_log(card);
  ASSERT_EQ(log.bytes.size(), kHeaderBytes + kRecordBytes);
  EXPECT_EQ(log.number(0, 1), 0U) << "neither lost nor more";
  EXPECT_EQ(log.number(kHeaderBytes + 16, 1), kRecordBytes);
  EXPECT_EQ(log.number(kHeaderBytes + 17, 3), kFailure);
  EXPECT_EQ(log.number(kHeaderBytes + 24, 8), 9'000U);
  EXPECT_EQ(log.number(kHeaderBytes + 48, 8), 0x1001U) << "address, and that it is volatile";
  EXPECT_EQ(log.number(kHeaderBytes + 56, 1), 1U) << "uncorrectable";
}

TEST(Events, AreReadAndClearedInTheirOrder) {
  Card card;
  for (std::uint64_t i = 0; i < NKV_EVENT_LOG_RECORDS; ++i) card.fail({{i * 64, false}});
  std::size_t read = 0;
  while (read < NKV_EVENT_LOG_RECORDS) {
    const Answer log = read_log(card);
    const std::vector<std::uint64_t> found = handles(log);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(log.number(kHeaderBytes + 48, 8), read * 64 + 1);
    read += found.size();
    EXPECT_EQ(log.number(0, 1) & 2, read < NKV_EVENT_LOG_RECORDS ? 2U : 0U) << "more";
    EXPECT_EQ(clear(card, found), NKV_CCI_STATUS_SUCCESS);
  }
  EXPECT_TRUE(handles(read_log(card)).empty());
}

TEST(Events, StayUnlessAllHandlesAreThoseOfTheOldest) {
  Card card;
  card.fail({{0, false}, {64, false}, {128, false}});
  const std::vector<std::uint64_t> all = handles(read_log(card));
  ASSERT_EQ(all.size(), 3U);
  for (const std::vector<std::uint64_t>& wrong : {std::vector{all[1]},
                                                  {all[1], all[0]},
                                                  {all[0], all[2]},
                                                  {all[0], all[1], all[2], 4UL},
                                                  {0UL}}) {
    EXPECT_EQ(clear(card, wrong), NKV_CCI_STATUS_INVALID_HANDLE);
    EXPECT_EQ(handles(read_log(card)), all);
  }
  EXPECT_EQ(clear(card, {all[0]}), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(handles(read_log(card)), (std::vector{all[1], all[2]}));
  EXPECT_EQ(clear(card, {all[0]}), NKV_CCI_STATUS_INVALID_HANDLE) << "twice";
  EXPECT_EQ(clear(card, {}), NKV_CCI_STATUS_INVALID_INPUT);
}

TEST(Events, ThatWereClearedAreNotClearedAgainWhereTheyLay) {
  Card card;
  for (std::uint64_t i = 0; i < NKV_EVENT_LOG_RECORDS; ++i) card.fail({{i * 64, false}});
  const std::uint64_t oldest = handles(read_log(card))[0];
  ASSERT_EQ(clear(card, {oldest}), NKV_CCI_STATUS_SUCCESS);
  std::vector<std::uint64_t> around;
  for (std::uint64_t i = 1; i < NKV_EVENT_LOG_RECORDS; ++i) around.push_back(oldest + i);
  around.push_back(oldest);
  EXPECT_EQ(clear(card, around), NKV_CCI_STATUS_INVALID_HANDLE);
  EXPECT_EQ(handles(read_log(card))[0], oldest + 1);
}

TEST(Events, AreCountedWhenTheLogIsFullUntilItWasEmptied) {
  Card card;
  card.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, Payload().number(1'000, 8));
  for (std::uint64_t i = 0; i < NKV_EVENT_LOG_RECORDS + 3; ++i) {
    card.uptime_ns = i;
    card.fail({{i * 64, false}});
  }
  const Answer log = read_log(card);
  EXPECT_EQ(log.number(0, 1) & 1, 1U);
  EXPECT_EQ(log.number(2, 2), 3U);
  EXPECT_EQ(log.number(4, 8), 1'000U + NKV_EVENT_LOG_RECORDS);
  EXPECT_EQ(log.number(12, 8), 1'000U + NKV_EVENT_LOG_RECORDS + 2);
  EXPECT_EQ(log.number(kHeaderBytes + 48, 8), 1U) << "the oldest stays";

  const Payload all = Payload().number(kFailure, 1).number(1, 1).zeros(4);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_CLEAR_EVENT_RECORDS, all).status, NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(read_log(card).number(0, 4), 0U);
}

TEST(Events, HaveHandlesThatAreNeverZero) {
  Card card;
  for (unsigned i = 0; i < 70'000; ++i) {
    card.fail({{0, false}});
    const std::vector<std::uint64_t> found = handles(read_log(card));
    ASSERT_EQ(found.size(), 1U);
    ASSERT_NE(found[0], 0U) << i;
    ASSERT_EQ(clear(card, found), NKV_CCI_STATUS_SUCCESS);
  }
}

TEST(Events, InterruptOnlyWhereTheHostWantsIt) {
  Card card;
  card.fail({{0, false}});
  EXPECT_TRUE(card.interrupts.empty());
  const auto set = [&](std::uint64_t modes) {
    return card.execute(NKV_CCI_OPCODE_SET_EVENT_INTERRUPTS, Payload().number(modes, 4)).status;
  };
  EXPECT_EQ(set(0x00'01'00'00), NKV_CCI_STATUS_SUCCESS) << "failures alone";
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_EVENT_INTERRUPTS).number(0, 4), 0x00'01'00'00U);
  card.fail({{64, false}});
  EXPECT_EQ(card.interrupts.size(), 1U);
  card.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(4096, 8));
  EXPECT_EQ(card.interrupts.size(), 1U) << "of an injection nobody wants to know";
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_EVENT_INTERRUPTS).bytes.size(), 5U)
      << "of capacity, too";
  EXPECT_EQ(set(0x02'01'00'00), NKV_CCI_STATUS_INVALID_INPUT) << "we have no firmware interrupts";
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_EVENT_INTERRUPTS).number(0, 4), 0x00'01'00'00U);
}

TEST(Events, OfOtherLogsAreRefused) {
  Card card;
  EXPECT_EQ(read_log(card, 5).status, NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(read_log(card, 255).status, NKV_CCI_STATUS_INVALID_INPUT);
}

}  // namespace
}  // namespace nearkv::testing
