// The firmware behind the registers by which a host reaches it, simulated.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "card.hpp"
#include "management/processor.hpp"

namespace nearkv::testing {
namespace {

using emulator::ManagementProcessor;
using emulator::Operation;

constexpr std::uint64_t kDoorbell = 1;
constexpr std::uint64_t kDoorbellInterrupt = 2;

/// A host that finds its way as CXL's drivers do: by the capabilities.
class Host {
 public:
  explicit Host(std::vector<std::byte> image = emulator::read_image(NEARKV_FIRMWARE_IMAGE))
      : processor(image, {.memory_bytes = Card::kMemoryBytes, .serial = 7},
                  [this](Operation* operation) { return carry(operation); }) {}

  [[nodiscard]] std::map<unsigned, std::uint32_t> capabilities() {
    std::map<unsigned, std::uint32_t> found;
    const std::uint64_t array = processor.read(0);
    EXPECT_EQ(array >> 24 & 0xF, 1U) << "a memory device";
    for (unsigned i = 1; i <= (array >> 32 & 0xFFFF); ++i) {
      const std::uint64_t header = processor.read(16 * i);
      found[header & 0xFFFF] = static_cast<std::uint32_t>(header >> 32);
    }
    return found;
  }

  bool starts() {
    const std::uint32_t status = capabilities().at(0x4000);
    mailbox_ = capabilities().at(0x0002);
    return run_until([&] { return (processor.read(status) & 0x10) != 0; });
  }

  void write_command(std::uint16_t opcode, std::span<const std::uint8_t> payload) {
    for (std::size_t i = 0; i < payload.size(); i += 8) {
      const std::size_t bytes = std::min<std::size_t>(8, payload.size() - i);
      processor.write(payload_at(i), take_number(payload.data() + i, bytes));
    }
    processor.write(mailbox_ + 8, opcode | std::uint64_t{payload.size()} << 16);
  }
  void ring(std::uint64_t control = kDoorbell) { processor.write(mailbox_, control << 32); }
  bool is_rung() { return (processor.read(mailbox_) >> 32 & kDoorbell) != 0; }
  bool is_answered() {
    return run_until([&] { return !is_rung(); });
  }

  Answer read_answer() {
    const std::uint64_t bytes = processor.read(mailbox_ + 8) >> 16 & 0x1FFFFF;
    Answer answer{static_cast<nkv_cci_status>(processor.read(mailbox_ + 16) >> 32 & 0xFFFF), {}};
    for (std::uint64_t i = 0; i < bytes; ++i) {
      answer.bytes.push_back(
          static_cast<std::uint8_t>(processor.read(payload_at(i & ~7ULL)) >> 8 * (i % 8)));
    }
    return answer;
  }

  Answer execute(std::uint16_t opcode, std::span<const std::uint8_t> payload = {}) {
    write_command(opcode, payload);
    ring();
    EXPECT_TRUE(is_answered()) << "the firmware hangs";
    return read_answer();
  }
  Answer execute(std::uint16_t opcode, const Payload& payload) {
    return execute(opcode, payload.bytes());
  }

  [[nodiscard]] std::uint32_t payload_at(std::uint64_t byte) const {
    return static_cast<std::uint32_t>(mailbox_ + 0x20 + byte);
  }
  [[nodiscard]] std::uint32_t mailbox() const { return mailbox_; }

  template <typename Condition>
  bool run_until(const Condition& condition) {
    for (const std::uint64_t end = processor.cycles() + 3'000'000;
         processor.cycles() < end && !processor.has_failed();) {
      if (condition()) return true;
      processor.run(16);
    }
    return false;
  }

  ManagementProcessor processor;
  std::set<std::uint64_t> poisoned;
  unsigned cycles_to_wait = 0;  ///< For each operation.
  std::vector<Operation> operations;

 private:
  bool carry(Operation* operation) {
    if (waited_ < cycles_to_wait) {
      ++waited_;
      return false;
    }
    waited_ = 0;
    operations.push_back(*operation);
    if (operation->kind == NKV_FIRMWARE_OPERATION_POISON) poisoned.insert(operation->at);
    if (operation->kind == NKV_FIRMWARE_OPERATION_WRITE) poisoned.erase(operation->at);
    operation->has_failed = operation->kind > NKV_FIRMWARE_OPERATION_WRITE;
    return true;
  }

  std::uint32_t mailbox_ = 0;
  unsigned waited_ = 0;
};

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

TEST_F(Management, AnswersAsTheSameFirmwareDoesOnAHost) {
  Card card;
  std::mt19937_64 random(1);
  std::vector<std::uint8_t> bytes(NKV_MAILBOX_BYTES);
  for (unsigned i = 0; i < 300; ++i) {
    const cci_command& command = cci_commands[random() % cci_command_count];
    if (command.opcode == NKV_CCI_OPCODE_GET_TIMESTAMP) continue;
    std::size_t size = command.least_bytes;
    if (random() % 8 == 0) size = random() % (bytes.size() + 1);
    for (std::size_t at = 0; at < size; ++at) bytes[at] = static_cast<std::uint8_t>(random() % 3);
    const std::span<const std::uint8_t> payload{bytes.data(), size};
    const Answer expected = card.execute(command.opcode, payload);
    const Answer answer = host.execute(command.opcode, payload);
    ASSERT_EQ(answer.status, expected.status) << std::hex << command.opcode;
    ASSERT_EQ(answer.bytes.size(), expected.bytes.size()) << std::hex << command.opcode;
    if (command.opcode != NKV_CCI_OPCODE_GET_EVENT_RECORDS) {
      ASSERT_EQ(answer.bytes, expected.bytes) << std::hex << command.opcode;
    }
  }
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
  const Answer poison = host.execute(NKV_CCI_OPCODE_GET_POISON,
                                     Payload().number(0, 8).number(Card::kMemoryBytes / 64, 8));
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
