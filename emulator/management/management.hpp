// The management side of an emulated card: its clock, and what the firmware manages.
#ifndef NEARKV_EMULATOR_MANAGEMENT_MANAGEMENT_HPP_
#define NEARKV_EMULATOR_MANAGEMENT_MANAGEMENT_HPP_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "function/function.hpp"
#include "management/flash.hpp"
#include "management/processor.hpp"

namespace nearkv::emulator {

/// Runs the firmware in a thread of its own, beside the engine: whole while it has something to do,
/// and now and then otherwise, so that its clock goes slower than the world's.
///
/// Poison is what the firmware knows of it: the engines that are emulated here do not meet it.
class Management : public ManagementRegisters {
 public:
  /// `memory` is the card's, and must outlive it; its last `dynamic_bytes` are dynamic capacity.
  /// `flash` may be none.
  Management(std::span<const std::byte> rom, std::uint64_t serial, std::span<std::byte> memory,
             std::uint64_t dynamic_bytes, std::unique_ptr<Flash> flash);
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;
  ~Management() override;

  std::uint64_t read(std::uint32_t offset) override;
  void write(std::uint32_t offset, std::uint64_t value) override;
  bool serve(Function* function) override;

 private:
  void run(const std::stop_token& stop);
  bool carry(Operation* operation);
  bool carry_register(Operation* operation);
  void check(Operation* operation) const;
  void wipe(const Operation& operation);
  [[nodiscard]] bool is_inside(std::uint64_t at, std::uint64_t bytes) const;

  std::span<std::byte> memory_;
  std::unique_ptr<Flash> flash_;
  std::set<std::uint64_t> poisoned_;

  std::mutex register_mutex_;
  std::optional<Operation> register_wanted_;
  std::optional<Operation> register_done_;

  std::mutex mutex_;  ///< Guards processor_.
  std::condition_variable_any wakes_;
  std::atomic<unsigned> waiting_ = 0;  ///< For mutex_, before the thread takes it again.
  ManagementProcessor processor_;
  std::jthread thread_;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_MANAGEMENT_MANAGEMENT_HPP_
