// A host before the registers of a card's firmware, simulated; the memory that the firmware manages
// is played here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "card.hpp"
#include "management/flash.hpp"
#include "management/processor.hpp"
#include "monitor.hpp"

namespace nearkv::testing {

using emulator::ManagementProcessor;
using emulator::Operation;

inline constexpr std::uint64_t kDoorbell = 1;
inline constexpr std::uint64_t kDoorbellInterrupt = 2;

/// A host that finds its way as CXL's drivers do: by the capabilities.
class Host {
 public:
  explicit Host(const std::vector<std::byte>& rom = emulator::read_image(NEARKV_FIRMWARE_ROM))
      : processor(
            rom,
            {.memory_bytes = Card::kMemoryBytes, .serial = 7, .dynamic_bytes = Card::kDynamicBytes},
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

  /// Whether the firmware says that it runs.
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
    for (const std::uint64_t end = processor.cycles() + 24'000'000;
         processor.cycles() < end && !processor.has_failed();) {
      if (condition()) return true;
      processor.run(16);
    }
    return false;
  }

  /// Until the firmware has nothing to do, in the background either.
  void settle() {
    processor.run(500);
    EXPECT_TRUE(run_until([&] { return !processor.is_busy(); }));
  }

  emulator::Flash flash;
  ManagementProcessor processor;
  std::set<std::uint64_t> poisoned;
  std::map<std::uint64_t, std::uint64_t> registers{{NKV_REG_ID, NKV_ABI_ID}};
  Monitor* monitor = nullptr;  ///< NEAR_HOTNESS; none: registers are memory.
  bool media_answers = true;
  unsigned cycles_to_wait = 0;  ///< For each operation.
  std::vector<Operation> operations;

 private:
  static bool is_monitors(std::uint64_t at) {
    return at >= NKV_REG_NEAR_HOTNESS(0) && at < NKV_REG_NEAR_HOTNESS(NKV_HOTNESS_WORDS);
  }
  static std::uint32_t offset_of(std::uint64_t at) {
    return static_cast<std::uint32_t>(at - NKV_REG_NEAR_HOTNESS(0));
  }

  bool carry(Operation* operation) {
    if (!media_answers || waited_ < cycles_to_wait) {
      ++waited_;
      return false;
    }
    waited_ = 0;
    operations.push_back(*operation);
    const std::uint64_t end = operation->at + operation->bytes;
    const auto first = poisoned.lower_bound(operation->at);
    switch (operation->kind) {
      case NKV_FIRMWARE_OPERATION_POISON:
        poisoned.insert(operation->at);
        break;
      case NKV_FIRMWARE_OPERATION_WRITE:
        poisoned.erase(operation->at);
        break;
      case NKV_FIRMWARE_OPERATION_CHECK:
        operation->at = first == poisoned.end() ? end : std::min(end, *first);
        break;
      case NKV_FIRMWARE_OPERATION_WIPE:
        poisoned.erase(first, poisoned.lower_bound(end));
        break;
      case NKV_FIRMWARE_OPERATION_READ_REGISTER:
        if (monitor != nullptr && is_monitors(operation->at)) {
          registers[operation->at] = monitor->read(offset_of(operation->at));
        }
        std::memcpy(operation->line.data(), &registers[operation->at], sizeof(std::uint64_t));
        break;
      case NKV_FIRMWARE_OPERATION_WRITE_REGISTER:
        std::memcpy(&registers[operation->at], operation->line.data(), sizeof(std::uint64_t));
        if (monitor != nullptr && is_monitors(operation->at)) {
          monitor->write(offset_of(operation->at), registers[operation->at]);
        }
        break;
      default:
        operation->has_failed = !carry_flash(&flash, operation) || operation->has_failed;
    }
    return true;
  }

  std::uint32_t mailbox_ = 0;
  unsigned waited_ = 0;
};

}  // namespace nearkv::testing
