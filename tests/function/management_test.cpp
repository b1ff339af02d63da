// The firmware beside the engine, in one process: neither waits for the other.
#include "management/management.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "function/function.hpp"
#include "support/devices.hpp"

namespace nearkv::test {
namespace {

using emulator::Function;
using emulator::Management;
using namespace std::chrono_literals;

constexpr std::uint64_t kRingBytes = std::uint64_t{NKV_MIN_RING_ENTRIES} * NKV_COMMAND_BYTES;
constexpr std::uint32_t kMailbox = NKV_CARD_MANAGEMENT_AT + 0x100;
constexpr std::uint64_t kDoorbell = 1ULL << 32;

/// `j .`, for ever.
std::vector<std::byte> rom_that_hangs() {
  std::vector<std::byte> rom(0x80 + 4);
  rom[0x80] = std::byte{0x6F};  // Where the core starts.
  return rom;
}

class ManagementTest : public testing::Test {
 protected:
  void start(const std::vector<std::byte>& rom) {
    device_ = open_or_throw("model:?memory=2MiB");
    management_ = std::make_unique<Management>(rom, 7, device_->memory(), 0, nullptr);
    function_ = std::make_unique<Function>(device_.get(), [](unsigned) {}, management_.get());
  }

  /// Rings the doorbell with a command; false if it is not answered in time. What the firmware
  /// asks of the engine's registers is carried out meanwhile, if they are served.
  bool execute(std::uint16_t opcode, std::chrono::milliseconds patience = 60s,
               std::vector<std::uint8_t> payload = {}, bool is_served = true) {
    const std::uint64_t bytes = payload.size();
    payload.resize((bytes + 7) / 8 * 8);
    for (std::uint32_t at = 0; at < payload.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, &payload[at], sizeof(word));
      function_->write(kMailbox + 0x20 + at, word);
    }
    function_->write(kMailbox + 8, opcode | bytes << 16);
    function_->write(kMailbox, kDoorbell);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while ((function_->read(kMailbox) & kDoorbell) != 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (is_served && management_->serve(function_.get())) ++register_operations_;
    }
    return true;
  }
  [[nodiscard]] std::uint64_t status() { return function_->read(kMailbox + 16) >> 32 & 0xFFFF; }

  /// Commands that do nothing, all there at once.
  void run_commands(std::uint16_t count) {
    function_->write(NKV_REG_SQ_BASE(0), 0);
    function_->write(NKV_REG_CQ_BASE(0), kRingBytes);
    function_->write(NKV_REG_RING_ENTRIES(0), NKV_MIN_RING_ENTRIES);
    function_->write(NKV_REG_WINDOW_BYTES(0), 1 << 20);
    function_->write(NKV_REG_QUEUE_CONTROL(0), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
    for (std::uint16_t i = 0; i < count; ++i) {
      device_->memory()[i * NKV_COMMAND_BYTES + offsetof(nkv_pages_command, flags)] =
          std::byte{NKV_SLOT_FLAG_PHASE};
    }
    function_->write(NKV_REG_SQ_TAIL(0), count);
    EXPECT_TRUE(function_->run(10s));
    for (std::uint16_t i = 0; i < count; ++i) {
      nkv_completion completion{};
      std::memcpy(&completion, &device_->memory()[kRingBytes + i * sizeof(completion)],
                  sizeof(completion));
      EXPECT_EQ(completion.phase, 1U);
      EXPECT_EQ(completion.status, NKV_STATUS_OK);
    }
  }

  unsigned register_operations_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Management> management_;
  std::unique_ptr<Function> function_;
};

TEST_F(ManagementTest, AnswersBehindTheEnginesRegisters) {
  start(emulator::read_image(NEARKV_FIRMWARE_ROM));
  ASSERT_TRUE(execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY));
  EXPECT_EQ(status(), NKV_CCI_STATUS_SUCCESS);
  run_commands(4);
}

TEST_F(ManagementTest, AnAnswerThatCameTooLateIsNotThatOfTheNextOperation) {
  start(emulator::read_image(NEARKV_FIRMWARE_ROM));
  constexpr std::uint8_t kRegisters = 3;  // Of the feature SHARING.
  ASSERT_TRUE(execute(NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES, 60s,
                      {8 + 48, 0, 0, 0, NKV_CARD_FEATURE_SHARING, 0, 0, 0}));
  std::vector<std::uint8_t> get(24);
  for (std::uint32_t at = 0; at < get.size(); at += 8) {
    const std::uint64_t word = function_->read(kMailbox + 0x20 + 8 + at);
    std::memcpy(&get[at], &word, sizeof(word));
  }
  get.resize(16);  // Its UUID.
  std::vector<std::uint8_t> set = get;
  get.insert(get.end(), {0, 0, 8 * kRegisters, 0, 0});
  set.insert(set.end(), {0, 0, 0, 0, 0, 0, 1});
  set.resize(32 + 8 * kRegisters);
  ASSERT_TRUE(execute(NKV_CCI_OPCODE_GET_FEATURE, 60s, get, false));
  EXPECT_EQ(status(), NKV_CCI_STATUS_INTERNAL_ERROR) << "nobody served its registers";
  EXPECT_TRUE(management_->serve(function_.get())) << "now somebody does";
  register_operations_ = 0;
  ASSERT_TRUE(execute(NKV_CCI_OPCODE_SET_FEATURE, 60s, set));
  EXPECT_EQ(status(), NKV_CCI_STATUS_SUCCESS);
  EXPECT_EQ(register_operations_, kRegisters);
}

TEST_F(ManagementTest, AHungFirmwareStopsNoQuery) {
  start(rom_that_hangs());
  EXPECT_FALSE(execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY, 50ms));
  run_commands(NKV_MIN_RING_ENTRIES);
  EXPECT_NE(function_->read(kMailbox) & kDoorbell, 0U) << "it still has the command";
}

TEST_F(ManagementTest, AFirmwareThatDiedStopsNoQuery) {
  start({64, std::byte{0xFF}});
  EXPECT_FALSE(execute(NKV_CCI_OPCODE_IDENTIFY_MEMORY, 50ms));
  run_commands(NKV_MIN_RING_ENTRIES);
}

}  // namespace
}  // namespace nearkv::test
