// The firmware behind the registers by which a host reaches it, simulated.
#include <gtest/gtest.h>

#include <random>

#include "host.hpp"

namespace nearkv::testing {
namespace {

class Management : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host.starts()); }

  Host host;
};

TEST_F(Management, ShowsItsRegistersAsADeviceOfCxlDoes) {
  const auto capabilities = host.capabilities();
  EXPECT_EQ(capabilities.size(), 3U) << "device status, mailbox, memory device status";
  const std::uint64_t mailbox = host.processor.read(host.mailbox());
  EXPECT_EQ(1U << (mailbox & 0x1F), unsigned{NKV_MAILBOX_BYTES});
  EXPECT_EQ(host.processor.read(capabilities.at(0x4000)) & 1, 0U) << "not failed";
  EXPECT_EQ(host.processor.read(capabilities.at(0x0001)), 0U) << "no events";
}

TEST_F(Management, BelongsToTheFirmwareFromDoorbellToAnswer) {
  const std::vector<std::uint8_t> secret(NKV_MAILBOX_BYTES, 0x5A);
  host.write_command(NKV_CCI_OPCODE_GET_TIMESTAMP, secret);
  EXPECT_EQ(host.processor.read(host.payload_at(0)), 0x5A5A5A5A5A5A5A5AU);
  host.ring();
  EXPECT_EQ(host.processor.read(host.payload_at(0)), 0U);
  const Payload time = Payload().number(1, 8);
  host.write_command(NKV_CCI_OPCODE_SET_TIMESTAMP, time.bytes());
  host.ring();
  ASSERT_TRUE(host.is_answered());
  EXPECT_EQ(host.read_answer().status, NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH) << "of the first";
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_TIMESTAMP).number(0, 8), 0U) << "not of the second";
}

TEST_F(Management, RefusesPayloadsLongerThanItsRoom) {
  for (const std::uint64_t bytes : {2049ULL, 4096ULL, 0x1FFFFFULL}) {
    host.processor.write(host.mailbox() + 8, NKV_CCI_OPCODE_GET_HEALTH | bytes << 16);
    host.ring();
    ASSERT_TRUE(host.is_answered());
    const Answer answer = host.read_answer();
    EXPECT_EQ(answer.status, NKV_CCI_STATUS_INVALID_PAYLOAD_LENGTH);
    EXPECT_TRUE(answer.bytes.empty());
  }
}

TEST_F(Management, InterruptsWhenTheHostAskedForIt) {
  host.write_command(NKV_CCI_OPCODE_GET_HEALTH, {});
  host.ring();
  ASSERT_TRUE(host.is_answered());
  EXPECT_EQ(host.processor.interrupts(), 0U);
  host.write_command(NKV_CCI_OPCODE_GET_HEALTH, {});
  host.ring(kDoorbell | kDoorbellInterrupt);
  ASSERT_TRUE(host.is_answered());
  EXPECT_EQ(host.processor.interrupts(), 1U);
}

TEST_F(Management, CarriesOutWhatTheFirmwareAsksForHoweverLongThatTakes) {
  for (const unsigned cycles : {0U, 1U, 2U, 1'000U}) {
    host.cycles_to_wait = cycles;
    const std::uint64_t address = 4096ULL + 64 * cycles;
    EXPECT_EQ(host.execute(NKV_CCI_OPCODE_INJECT_POISON, Payload().number(address, 8)).status,
              NKV_CCI_STATUS_SUCCESS);
    EXPECT_TRUE(host.poisoned.contains(address));
    Payload line;
    line.number(address, 8);
    for (unsigned i = 0; i < 64; ++i) line.number(i, 1);
    EXPECT_EQ(host.execute(NKV_CCI_OPCODE_CLEAR_POISON, line).status, NKV_CCI_STATUS_SUCCESS);
    ASSERT_FALSE(host.operations.empty());
    for (unsigned i = 0; i < 64; ++i) {
      EXPECT_EQ(static_cast<unsigned>(host.operations.back().line.at(i)), i);
    }
  }
}

TEST_F(Management, TellsTheFirmwareOfEachErrorOfTheMemory) {
  for (unsigned i = 0; i < 20; ++i) host.processor.report_error(i * 128ULL, false);
  ASSERT_TRUE(host.run_until([&] { return !host.processor.is_busy(); }));
  const Answer poison = host.execute(NKV_CCI_OPCODE_GET_POISON, range(0, Card::kMemoryBytes));
  EXPECT_EQ(poison.number(10, 2), 20U);
}

TEST_F(Management, TakesAnyAccessToItsRegisters) {
  std::mt19937_64 random(2);
  for (unsigned i = 0; i < 20'000; ++i) {
    const auto at = static_cast<std::uint32_t>(random() % 0x1000);
    if (random() % 2 == 0) {
      host.processor.write(at, random(), static_cast<std::uint8_t>(random()));
    } else {
      host.processor.read(at);
    }
    if (random() % 64 == 0) host.processor.run(random() % 4'000);
  }
  ASSERT_TRUE(host.is_answered());
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_SUCCESS);
}

TEST(ManagementWithoutFirmware, SaysThatItIsNotReadyAndKeepsTheDoorbell) {
  Host host(std::vector<std::byte>(64, std::byte{0xFF}));
  EXPECT_FALSE(host.starts());
  EXPECT_TRUE(host.processor.has_failed());
  EXPECT_EQ(host.processor.read(host.capabilities().at(0x4000)) & 0x11, 1U) << "fatal, not ready";
  host.ring();
  EXPECT_FALSE(host.is_answered());
}

}  // namespace
}  // namespace nearkv::testing
