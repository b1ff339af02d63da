// The firmware's image on its processor, simulated, against the same sources on the host.
#include <Vnkv_processor.h>
#include <gtest/gtest.h>
#include <verilated.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "card.hpp"

namespace nearkv::testing {
namespace {

using Share = nkv_firmware_share;

class Processor {
 public:
  explicit Processor(const std::vector<std::uint8_t>& image) {
    core_.rst_ni = 0;
    cycle();
    for (std::uint32_t at = 0; at < NKV_PROCESSOR_RAM_BYTES; at += 4) poke(at, 0);
    for (std::size_t at = 0; at < image.size(); at += 4) {
      std::uint32_t word = 0;
      for (std::size_t byte = 0; byte < 4 && at + byte < image.size(); ++byte) {
        word |= std::uint32_t{image[at + byte]} << 8 * byte;
      }
      poke(static_cast<std::uint32_t>(kResetVector + at), word);
    }
    write(offsetof(Share, memory_bytes), Card::kMemoryBytes, 8);
    write(offsetof(Share, temperature_celsius), 40, 4);
    core_.rst_ni = 1;
  }

  /// Whether the firmware says that it runs, within so many cycles.
  bool starts() {
    return run_until(2'000'000, [&] { return read(offsetof(Share, magic)) == NKV_FIRMWARE_MAGIC; });
  }

  /// Gives the mailbox a command; the cycles that its answer took go to `cycles`.
  Answer execute(std::uint16_t opcode, std::span<const std::uint8_t> payload, unsigned* cycles) {
    write(offsetof(Share, opcode), opcode, 2);
    write(offsetof(Share, payload_bytes), payload.size(), 4);
    for (std::size_t i = 0; i < payload.size(); i += 4) {
      const std::size_t bytes = std::min<std::size_t>(4, payload.size() - i);
      write(offsetof(Share, payload) + i, take_number(payload.data() + i, bytes), bytes);
    }
    const std::uint64_t start = cycles_;
    write(offsetof(Share, request), ++requests_, 4);
    const bool answered =
        run_until(5'000'000, [&] { return read(offsetof(Share, answer)) == requests_; });
    EXPECT_TRUE(answered) << "the firmware hangs";
    *cycles = static_cast<unsigned>(cycles_ - start);
    Answer answer{static_cast<nkv_cci_status>(read(offsetof(Share, opcode)) >> 16), {}};
    for (std::size_t i = 0; i < read(offsetof(Share, payload_bytes)); ++i) {
      const std::uint32_t word = read(offsetof(Share, payload) + (i & ~std::size_t{3}));
      answer.bytes.push_back(static_cast<std::uint8_t>(word >> 8 * (i % 4)));
    }
    return answer;
  }

  /// The memory controller finds an error, which the firmware takes.
  void fail(const media_error& error) {
    write(offsetof(Share, error_address), error.address, 8);
    write(offsetof(Share, error_corrected), error.corrected ? 1 : 0, 4);
    write(offsetof(Share, errors), ++errors_, 4);
    EXPECT_TRUE(run_until(100'000, [&] { return read(offsetof(Share, errors_taken)) == errors_; }));
  }

  bool media_answers = true;
  std::set<std::uint64_t> poisoned;

  [[nodiscard]] bool failed() const { return core_.failed_o != 0; }
  [[nodiscard]] std::uint32_t interrupts() { return read(offsetof(Share, interrupts)); }

 private:
  static constexpr std::uint32_t kResetVector = 128;

  void cycle() {
    core_.clk_i = 0;
    core_.eval();
    core_.clk_i = 1;
    core_.eval();
    ++cycles_;
  }

  void poke(std::uint32_t at, std::uint32_t word, unsigned bytes = 0xF) {
    core_.port_valid_i = 1;
    core_.port_write_i = static_cast<std::uint8_t>(bytes);
    core_.port_at_i = at;
    core_.port_data_i = word;
    cycle();
    core_.port_valid_i = 0;
    core_.port_write_i = 0;
  }

  /// A field of the share, or a part of one, in naturally aligned bytes.
  void write(std::size_t field, std::uint64_t value, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += 4) {
      const auto at = static_cast<std::uint32_t>(NKV_PROCESSOR_SHARE_AT + field + done);
      const unsigned lanes = bytes >= 4 ? 0xF : (1U << bytes) - 1;
      poke(at & ~3U, static_cast<std::uint32_t>(value >> 8 * done) << 8 * (at % 4),
           lanes << at % 4);
    }
  }

  std::uint32_t read(std::size_t field) {
    core_.port_valid_i = 1;
    core_.port_at_i = static_cast<std::uint32_t>(NKV_PROCESSOR_SHARE_AT + field) & ~3U;
    cycle();
    core_.port_valid_i = 0;
    return core_.port_data_o;
  }

  template <typename Condition>
  bool run_until(unsigned limit, const Condition& condition) {
    for (const std::uint64_t end = cycles_ + limit; cycles_ < end && !failed();) {
      if (condition()) return true;
      answer_media();
    }
    return false;
  }

  void answer_media() {
    const std::uint32_t request = read(offsetof(Share, operations));
    if (request == media_done_) return;
    if (!media_answers) return;
    const std::uint64_t address = read(offsetof(Share, operation_at)) |
                                  std::uint64_t{read(offsetof(Share, operation_at) + 4)} << 32;
    if (read(offsetof(Share, operation)) == NKV_FIRMWARE_OPERATION_POISON) {
      poisoned.insert(address);
    } else {
      poisoned.erase(address);
    }
    write(offsetof(Share, operation_failed), 0, 4);
    write(offsetof(Share, operations_done), media_done_ = request, 4);
  }

  Vnkv_processor core_;
  std::uint64_t cycles_ = 0;
  std::uint32_t requests_ = 0;
  std::uint32_t errors_ = 0;
  std::uint32_t media_done_ = 0;
};

std::vector<std::uint8_t> image() {
  std::ifstream file(NEARKV_FIRMWARE_IMAGE, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FirmwareOnItsProcessor, AnswersAsOnTheHost) {
  constexpr unsigned kCommands = 1'500;
  Processor processor(image());
  ASSERT_TRUE(processor.starts());
  Card card;
  std::mt19937_64 random(3);
  std::map<std::uint16_t, unsigned> worst_cycles;
  unsigned succeeded = 0;
  for (unsigned i = 0; i < kCommands; ++i) {
    const cci_command& command = cci_commands[random() % cci_command_count];
    const bool tells_the_time = command.opcode == NKV_CCI_OPCODE_SET_TIMESTAMP;
    if (tells_the_time) continue;  // Their clocks are not the same.
    const std::size_t room = command.most_bytes - command.least_bytes + std::size_t{1};
    std::vector<std::uint8_t> payload(random() % 8 == 0 ? random() % NKV_MAILBOX_BYTES
                                                        : command.least_bytes + random() % room);
    for (std::uint8_t& byte : payload)
      byte = static_cast<std::uint8_t>(random() % 4 == 0 ? 64 * (random() % 3) : 0);
    if (random() % 2 == 0) {
      const media_error error{.address = random() % 4096 * 64, .corrected = random() % 3 == 0};
      card.fail({error});
      processor.fail(error);
    }
    const Answer expected = card.execute(command.opcode, payload);
    unsigned cycles = 0;
    const Answer answer = processor.execute(command.opcode, payload, &cycles);
    ASSERT_FALSE(processor.failed()) << "an exception";
    ASSERT_EQ(answer.status, expected.status) << i << ": " << command.opcode;
    ASSERT_EQ(answer.bytes, expected.bytes) << i << ": " << command.opcode;
    ASSERT_EQ(processor.poisoned, card.poisoned);
    worst_cycles[command.opcode] = std::max(worst_cycles[command.opcode], cycles);
    succeeded += answer.status == NKV_CCI_STATUS_SUCCESS ? 1U : 0U;
  }
  EXPECT_EQ(processor.interrupts(), card.interrupts.size());
  EXPECT_GT(succeeded, kCommands / 4);
  std::printf("image: %zu bytes; cycles of the slowest of %u commands:\n", image().size(),
              kCommands);
  for (const auto& [opcode, cycles] : worst_cycles) std::printf("  %04x %7u\n", opcode, cycles);
}

TEST(FirmwareOnItsProcessor, GivesUpOnAMemoryControllerThatHangs) {
  Processor processor(image());
  ASSERT_TRUE(processor.starts());
  processor.media_answers = false;
  const Payload line = Payload().number(4096, 8);
  unsigned cycles = 0;
  EXPECT_EQ(processor.execute(NKV_CCI_OPCODE_INJECT_POISON, line.bytes(), &cycles).status,
            NKV_CCI_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(processor.execute(NKV_CCI_OPCODE_GET_HEALTH, {}, &cycles).status,
            NKV_CCI_STATUS_SUCCESS);
}

TEST(FirmwareOnItsProcessor, TellsTheTimeByItsCycles) {
  Processor processor(image());
  ASSERT_TRUE(processor.starts());
  unsigned cycles = 0;
  const Payload day = Payload().number(86'400'000'000'000, 8);
  processor.execute(NKV_CCI_OPCODE_SET_TIMESTAMP, day.bytes(), &cycles);
  const auto now = [&] {
    return processor.execute(NKV_CCI_OPCODE_GET_TIMESTAMP, {}, &cycles).number(0, 8);
  };
  const std::uint64_t first = now();
  EXPECT_GE(first, 86'400'000'000'000U);
  EXPECT_LT(first, 86'400'000'000'000U + 1'000'000U);
  const std::uint64_t second = now();
  EXPECT_GT(second, first);
  EXPECT_LE(second, first + std::uint64_t{2 * cycles + 100} * NKV_PROCESSOR_CYCLE_NS);
}

TEST(FirmwareOnItsProcessor, WithoutAnImageDoesNotSayThatItRuns) {
  Processor processor(std::vector<std::uint8_t>(64, 0xFF));
  EXPECT_FALSE(processor.starts());
  EXPECT_TRUE(processor.failed());
}

}  // namespace
}  // namespace nearkv::testing
