// The management side of a card, Verilated: the firmware on its processor, and its mailbox.
#ifndef NEARKV_EMULATOR_MANAGEMENT_PROCESSOR_HPP_
#define NEARKV_EMULATOR_MANAGEMENT_PROCESSOR_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nkv_abi.h"
#include "nkv_card.h"

class Vnkv_management;  // NOLINT(readability-identifier-naming)
class VerilatedContext;

namespace nearkv::emulator {

class Flash;

/// What the firmware asks of the card; see nkv_firmware_operation.
struct Operation {
  nkv_firmware_operation kind = NKV_FIRMWARE_OPERATION_CHECK;
  std::uint64_t at = 0;
  std::uint32_t bytes = 0;
  std::array<std::byte, NKV_BURST_BYTES> line{};
  bool has_failed = false;
  std::uint64_t number = 0;  ///< Another one: what was asked before is done, or given up.
};

/// Carries an operation out on flash memory, which may be none; false if it is of another kind.
bool carry_flash(Flash* flash, Operation* operation);

/// `nkv_management` with a clock that runs in calls of this class. One thread at a time.
class ManagementProcessor {
 public:
  /// Carries an operation out and writes its results; false: not yet, it is asked again.
  using Carry = std::function<bool(Operation* operation)>;

  struct Identity {
    std::uint64_t memory_bytes = 0;
    std::uint64_t serial = 0;
    std::uint64_t dynamic_bytes = 0;  ///< Of the memory, at its end: dynamic capacity.
    std::int16_t temperature_celsius = 40;
  };

  /// The loader in the ROM starts with the first cycle.
  ManagementProcessor(std::span<const std::byte> rom, const Identity& identity, Carry carry);
  ManagementProcessor(const ManagementProcessor&) = delete;
  ManagementProcessor& operator=(const ManagementProcessor&) = delete;
  ~ManagementProcessor();

  /// Runs so many cycles.
  void run(std::uint64_t cycles);

  /// A word of the CXL device registers; takes a cycle. 0 where there is none.
  std::uint64_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint64_t value, std::uint8_t strobes = 0xFF);

  /// The memory controller found an error of a line.
  void report_error(std::uint64_t address, bool is_corrected);
  void set_temperature(std::int16_t celsius);

  /// The firmware has not started yet, or has a command, an operation or an error under way.
  [[nodiscard]] bool is_busy() const;
  /// The processor has stopped, and only a reset helps.
  [[nodiscard]] bool has_failed() const;
  [[nodiscard]] std::uint64_t cycles() const { return cycles_; }
  /// Interrupts so far.
  [[nodiscard]] std::uint64_t interrupts() const { return interrupts_; }

 private:
  struct Error {
    std::uint64_t address;
    bool is_corrected;
  };

  void cycle();
  void load(std::span<const std::byte> rom);
  void carry();

  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vnkv_management> rtl_;
  Carry carry_;
  std::uint64_t operations_ = 0;
  bool is_asking_ = false;
  std::deque<Error> errors_;
  std::uint64_t cycles_ = 0;
  std::uint64_t interrupts_ = 0;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_MANAGEMENT_PROCESSOR_HPP_
