// What the firmware tells of itself and of its temperature.
#include <gtest/gtest.h>

#include "card.hpp"

namespace nearkv::testing {
namespace {

constexpr unsigned kHot = 1 << 1;
constexpr unsigned kCold = 1 << 2;
constexpr unsigned kWarnings = 1;
constexpr unsigned kFailures = 2;
constexpr std::size_t kFirstRecord = 32;

class Health : public ::testing::Test {
 protected:
  void SetUp() override { settle(); }

  void settle() {
    while (card.turn()) {
    }
  }
  void be_at(int celsius) {
    card.celsius = static_cast<std::int16_t>(celsius);
    settle();
  }
  nkv_cci_status alert(unsigned valid, unsigned enabled, int hot, int cold) {
    return card
        .execute(NKV_CCI_OPCODE_SET_ALERTS, Payload()
                                                .number(valid, 1)
                                                .number(enabled, 1)
                                                .zeros(2)
                                                .number(static_cast<std::uint16_t>(hot), 2)
                                                .number(static_cast<std::uint16_t>(cold), 2)
                                                .zeros(4))
        .status;
  }
  Answer log(unsigned number) {
    return card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(number, 1));
  }
  std::uint64_t events(unsigned number) { return log(number).number(20, 2); }

  Card card;
};

TEST_F(Health, TellsOnceOfATemperatureThatTheHostAskedFor) {
  be_at(70);
  EXPECT_EQ(events(kWarnings), 0U) << "nobody asked";
  ASSERT_EQ(alert(kHot | kCold, kHot | kCold, 60, 5), NKV_CCI_STATUS_SUCCESS);
  settle();
  EXPECT_EQ(events(kWarnings), 1U);
  be_at(75);
  be_at(59);
  be_at(61);
  EXPECT_EQ(events(kWarnings), 1U) << "it has not gone back by more than it wavers";
  be_at(40);
  be_at(60);
  EXPECT_EQ(events(kWarnings), 2U);
  be_at(40);
  be_at(5);
  EXPECT_EQ(events(kWarnings), 3U);
  EXPECT_EQ(events(kFailures), 0U);
}

TEST_F(Health, TellsOfACriticalTemperatureUnasked) {
  be_at(95);
  be_at(96);
  ASSERT_EQ(events(kFailures), 1U);
  const Answer failures = log(kFailures);
  const std::uint64_t uuid = 0x3943'59DD'7574'92FE;  // fe927475-dd59-4339-...
  EXPECT_EQ(failures.number(kFirstRecord, 8), uuid) << "a memory module event";
  EXPECT_EQ(failures.number(kFirstRecord + 48, 1), 3U) << "of the temperature";
  EXPECT_EQ(failures.number(kFirstRecord + 49 + 2, 1) & 0xC, 8U) << "critical";
  EXPECT_EQ(failures.number(kFirstRecord + 49 + 4, 2), 95U);
  be_at(40);
  be_at(-10);
  EXPECT_EQ(events(kFailures), 2U);
}

TEST_F(Health, KeepsAlertsThatACommandDoesNotName) {
  ASSERT_EQ(alert(kHot, kHot, 60, 0), NKV_CCI_STATUS_SUCCESS);
  ASSERT_EQ(alert(kCold, kCold, 0, 5), NKV_CCI_STATUS_SUCCESS);
  const Answer alerts = card.execute(NKV_CCI_OPCODE_GET_ALERTS);
  EXPECT_EQ(alerts.number(0, 1), kHot | kCold);
  EXPECT_EQ(alerts.number(8, 2), 60U);
  EXPECT_EQ(alerts.number(10, 2), 5U);
  ASSERT_EQ(alert(kHot, 0, 0, 0), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_ALERTS).number(0, 1), kCold);
}

TEST_F(Health, RefusesWarningsThatComeTooLate) {
  EXPECT_EQ(alert(kHot, kHot, 96, 0), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(alert(kCold, kCold, 0, -11), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(alert(1, 1, 0, 0), NKV_CCI_STATUS_INVALID_INPUT) << "life used is not known";
  EXPECT_EQ(alert(kHot, kHot | kCold, 60, 5), NKV_CCI_STATUS_INVALID_INPUT);
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_ALERTS).number(0, 1), 0U);
}

TEST_F(Health, IsGoodAfterASelfTestThatFoundNothing) {
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).number(0, 1), 0U);
  EXPECT_EQ(events(kFailures), 0U);
}

TEST(SelfTest, TellsOfAnEngineOfAnotherContract) {
  Card card;
  card.registers[NKV_REG_ID] = 1;
  while (card.turn()) {
  }
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).number(0, 1), 1U) << "needs maintenance";
  const Answer failures =
      card.execute(NKV_CCI_OPCODE_GET_EVENT_RECORDS, Payload().number(kFailures, 1));
  EXPECT_EQ(failures.number(20, 2), 1U);
  EXPECT_EQ(failures.number(kFirstRecord + 48, 1), 0U) << "of its health";
  EXPECT_EQ(failures.number(kFirstRecord + 49, 1), 1U);
}

TEST(SelfTest, TellsOfAMemoryThatDoesNotAnswer) {
  Card card;
  card.media_answers = false;
  card.turn();
  EXPECT_EQ(card.execute(NKV_CCI_OPCODE_GET_HEALTH).number(0, 1), 1U);
}

}  // namespace
}  // namespace nearkv::testing
