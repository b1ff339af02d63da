// The card's function: what lies between its driver and the engine's registers.
#ifndef NEARKV_EMULATOR_FUNCTION_HPP_
#define NEARKV_EMULATOR_FUNCTION_HPP_

#include <array>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "nearkv/device.hpp"
#include "nkv_abi.h"
#include "nkv_card.h"

namespace nearkv::emulator {

class Function;

/// Registers behind the engine's: the firmware's, from CARD_MANAGEMENT_AT on.
class ManagementRegisters {
 public:
  ManagementRegisters() = default;
  ManagementRegisters(const ManagementRegisters&) = delete;
  ManagementRegisters& operator=(const ManagementRegisters&) = delete;
  virtual ~ManagementRegisters() = default;

  /// `offset` is that from CARD_MANAGEMENT_AT. Any thread.
  virtual std::uint64_t read(std::uint32_t offset) = 0;
  virtual void write(std::uint32_t offset, std::uint64_t value) = 0;

  /// Lets the firmware have the engine's register that it waits for, if it does; false if not. In
  /// the thread of `function`.
  virtual bool serve(Function* function) = 0;
};

/// Registers of a Device, with doorbells in memory and messages for completions and errors.
///
/// On a card the inline path recognises doorbells and the function's interrupt lines are the
/// engine's. Here a guest's stores cannot be trapped, so that lines of memory are looked at, and so
/// are completion rings. One thread at a time.
class Function {
 public:
  /// Sends a message of this vector to the driver.
  using Interrupt = std::function<void(unsigned vector)>;

  /// `device` and `management` must outlive it; without the latter, its registers read as ones.
  Function(Device* device, Interrupt interrupt, ManagementRegisters* management = nullptr);

  /// All ones where there is no register.
  [[nodiscard]] std::uint64_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint64_t value);

  /// Device memory becomes zero; what lies outside is left alone.
  void wipe(std::uint64_t at, std::uint64_t bytes);

  /// Looks at the doorbells, lets the engine work for about so long if it has something to do, and
  /// tells what has completed. False if nothing has happened.
  bool run(std::chrono::nanoseconds patience);

 private:
  struct Ring {
    bool is_running = false;
    bool is_undecided = false;  ///< QUEUE_STATUS says nothing yet: a card takes cycles to decide.
    std::uint64_t entries = 0;
    std::uint64_t completions_at = 0;
    std::uint16_t submitted = 0;
    std::uint16_t completed = 0;
    nkv_doorbell_line heard{};  ///< The doorbell as it was looked at last.
  };

  void write_queue(unsigned index, std::uint32_t offset, std::uint64_t value);
  void start(unsigned index);
  bool hear();
  bool tell();
  [[nodiscard]] nkv_doorbell_line doorbell(unsigned index) const;
  /// The oldest that has not been told; null if there is none.
  [[nodiscard]] const std::byte* completion(const Ring& ring) const;
  [[nodiscard]] bool is_busy() const;

  Device* device_;
  Interrupt interrupt_;
  ManagementRegisters* management_;
  std::span<std::byte> memory_;
  std::array<Ring, NKV_MAX_QUEUES> rings_{};
  std::uint64_t doorbell_base_ = 0;
  std::bitset<NKV_MAX_QUEUES> doorbells_;  ///< That are enabled.
  std::uint64_t epoch_ = 0;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_FUNCTION_HPP_
