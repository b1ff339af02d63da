// The firmware's image on its processor, simulated, against the same sources on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "features.hpp"
#include "host.hpp"

namespace nearkv::testing {
namespace {

class FirmwareOnItsProcessor : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host.starts()); }

  Host host;
};

TEST_F(FirmwareOnItsProcessor, AnswersAsOnTheHost) {
  constexpr unsigned kCommands = 1'500;
  Card card;
  while (card.turn()) {
  }
  std::mt19937_64 random(3);
  std::mt19937_64 names(4);
  std::map<std::uint16_t, unsigned> worst_cycles;
  unsigned succeeded = 0;
  for (unsigned i = 0; i < kCommands; ++i) {
    const cci_command& command = card.commands()[random() % card.commands().size()];
    const bool tells_the_time = command.opcode == NKV_CCI_OPCODE_SET_TIMESTAMP;
    if (tells_the_time) continue;  // Their clocks are not the same.
    const std::size_t room = command.most_bytes - command.least_bytes + std::size_t{1};
    std::vector<std::uint8_t> payload(random() % 8 == 0 ? random() % NKV_MAILBOX_BYTES
                                                        : command.least_bytes + random() % room);
    for (std::uint8_t& byte : payload)
      byte = static_cast<std::uint8_t>(random() % 4 == 0 ? 64 * (random() % 3) : 0);
    if (names() % 2 == 0) name_something(card, command.opcode, names(), payload);
    if (random() % 2 == 0) {
      const media_error error{.address = random() % 4096 * 64, .corrected = random() % 3 == 0};
      card.fail({error});
      host.processor.report_error(error.address, error.corrected);
      host.settle();
    }
    const Answer expected = card.execute(command.opcode, payload);
    host.write_command(command.opcode, payload);
    const std::uint64_t start = host.processor.cycles();
    host.ring();
    ASSERT_TRUE(host.is_answered()) << "it hangs";
    const auto cycles = static_cast<unsigned>(host.processor.cycles() - start);
    const Answer answer = host.read_answer();
    ASSERT_FALSE(host.processor.has_failed()) << "an exception";
    ASSERT_EQ(answer.status, expected.status) << i << ": " << command.opcode;
    ASSERT_EQ(answer.bytes, expected.bytes) << i << ": " << command.opcode;
    while (card.turn()) {
    }
    host.settle();
    ASSERT_EQ(host.poisoned, card.poisoned);
    worst_cycles[command.opcode] = std::max(worst_cycles[command.opcode], cycles);
    succeeded += answer.status == NKV_CCI_STATUS_SUCCESS ? 1U : 0U;
  }
  EXPECT_EQ(host.processor.interrupts(), card.interrupts.size());
  EXPECT_GT(succeeded, kCommands / 4);
  std::printf("image: %zu bytes; cycles of the slowest of %u commands:\n",
              emulator::read_image(NEARKV_FIRMWARE_SIGNED).size(), kCommands);
  for (const auto& [opcode, cycles] : worst_cycles) std::printf("  %04x %7u\n", opcode, cycles);
}

TEST_F(FirmwareOnItsProcessor, TellsWhatIsHotAndAnswersMeanwhile) {
  constexpr std::uint64_t kUnitBytes = 4096;
  constexpr unsigned kUnits = 100;
  constexpr std::uint64_t kLogBytes = HOTNESS_MONITORS * sizeof(nkv_hotness_list);
  Monitor monitor;
  host.monitor = &monitor;
  const Answer logs = host.execute(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS);
  const std::span uuid = std::span(logs.bytes).subspan(8 + 20 * NKV_CARD_LOG_HOTNESS, 16);
  const Payload part = log_part(uuid, 0, kLogBytes);
  // Off, and 4 KiB, 1 ms and 64 units.
  ASSERT_EQ(set_feature(host, find_feature(host, NKV_CARD_FEATURE_HOTNESS), NKV_CCI_TRANSFER_FULL,
                        0, {0, 12, 1, 0, 1, 0, 0, 0, 1, 12, 1, 0, 64, 0, 0, 0}),
            NKV_CCI_STATUS_SUCCESS);
  ASSERT_TRUE(host.run_until([&] { return monitor.is_enabled(); }));
  nkv_hotness_list list{};
  std::uint64_t worst_cycles = 0;
  for (unsigned round = 0; round < 2'000 && list.units == 0; ++round) {
    for (unsigned unit = 0; unit < kUnits * 64; ++unit) monitor.access(unit % kUnits * kUnitBytes);
    host.write_command(NKV_CCI_OPCODE_GET_LOG, part.bytes());
    const std::uint64_t start = host.processor.cycles();
    host.ring();
    ASSERT_TRUE(host.is_answered());
    worst_cycles = std::max(worst_cycles, host.processor.cycles() - start);
    const Answer answer = host.read_answer();
    ASSERT_EQ(answer.bytes.size(), kLogBytes);
    std::memcpy(&list, answer.bytes.data() + sizeof(list), sizeof(list));
  }
  EXPECT_EQ(list.state, NKV_HOTNESS_STATE_COUNTING);
  EXPECT_EQ(list.threshold, 64U);
  EXPECT_EQ(list.listed, kUnits);
  ASSERT_EQ(list.units, unsigned{NKV_HOTNESS_UNITS});
  for (unsigned i = 0; i < list.units; ++i) EXPECT_EQ(list.addresses[i], i * kUnitBytes);
  std::printf("cycles of the slowest reading of hot units: %llu\n",
              static_cast<unsigned long long>(worst_cycles));
}

TEST_F(FirmwareOnItsProcessor, GivesUpOnAMemoryControllerThatHangs) {
  host.media_answers = false;
  const Payload line = Payload().number(4096, 8);
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_INJECT_POISON, line).status, NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(host.execute(NKV_CCI_OPCODE_GET_HEALTH).status, NKV_CCI_STATUS_SUCCESS);
}

TEST_F(FirmwareOnItsProcessor, TellsTheTimeByItsCycles) {
  const Payload day = Payload().number(86'400'000'000'000, 8);
  host.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, day);
  const auto now = [&] { return host.execute(NKV_CCI_OPCODE_GET_TIMESTAMP).number(0, 8); };
  const std::uint64_t start = host.processor.cycles();
  const std::uint64_t first = now();
  EXPECT_GE(first, 86'400'000'000'000U);
  EXPECT_LT(first, 86'400'000'000'000U + 1'000'000U);
  const std::uint64_t second = now();
  EXPECT_GT(second, first);
  EXPECT_LE(second, first + (host.processor.cycles() - start) * NKV_PROCESSOR_CYCLE_NS);
}

}  // namespace
}  // namespace nearkv::testing
