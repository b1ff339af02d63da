// A card behind its Linux driver: a file with a window of device memory and queues of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "device/queue_register.hpp"
#include "device/uri.hpp"
#include "file_descriptor.hpp"
#include "media/stand_in.hpp"
#include "nearkv/device.hpp"
#include "nkv_abi.h"
#include "nkv_card.h"

namespace nearkv {

/// The file's window is the device's memory, and registers are what the driver lets a file have:
/// the queues, and what the card is. Doorbells are stores to mapped memory; nothing that a command
/// needs is a system call. Mappings of a card that goes, or is reset, can still be touched: see
/// StandIn. Thread safety: as Device.
class LinuxDevice final : public Device {
 public:
  /// linux:[PATH][?memory=SIZE&name=NAME]; errors and `reason` as open_device().
  static Status open(DeviceUri uri, std::unique_ptr<Device>* device, std::string* reason);

  ~LinuxDevice() override;

  std::uint64_t read_csr(std::uint32_t offset) override;
  void write_csr(std::uint32_t offset, std::uint64_t value) override;
  std::span<std::byte> memory() override { return memory_; }
  [[nodiscard]] Durability durability() const override {
    return is_kept_ ? Durability::kProcess : Durability::kNone;
  }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override;
  [[nodiscard]] bool is_gone() const override;

 private:
  /// What software wrote to a queue's registers, by their place in its block.
  struct Queue {
    std::array<std::uint64_t, NKV_REG_SQ_BASE_STRIDE / 8> registers{};
    nkv_doorbell_line* doorbell = nullptr;  ///< While it runs.
    std::optional<StandIn> stand_in;        ///< For the doorbell: a reset takes it away.
    bool is_refused = false;
    bool is_stuck = false;  ///< Told to stop, and has not: it may still write the window.
  };

  LinuxDevice(FileDescriptor file, const nkv_card_info& info, std::span<std::byte> memory,
              bool is_kept);

  /// As ioctl(), and notes that the card has gone.
  int call(unsigned long request, void* argument);
  [[nodiscard]] std::uint64_t read_queue(QueueRegister place);
  [[nodiscard]] bool was_reset();
  void start(unsigned index);
  void stop(unsigned index);

  FileDescriptor file_;
  nkv_card_info info_;
  std::span<std::byte> memory_;
  StandIn stand_in_;  ///< For memory_.
  std::atomic<bool> is_gone_ = false;
  bool is_kept_;
  std::mutex mutex_;
  std::array<Queue, NKV_CARD_OPEN_QUEUES> queues_;  ///< Guarded by mutex_.
};

}  // namespace nearkv
