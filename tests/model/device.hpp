// The model as a host drives it: a shared object, registers, memory, one queue.
#ifndef NEARKV_TESTS_MODEL_DEVICE_HPP_
#define NEARKV_TESTS_MODEL_DEVICE_HPP_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nearkv/device_plugin.h"
#include "nkv_abi.h"

namespace nearkv::test {

using CommandBytes = std::array<std::byte, 64>;

/// An opened device, as the plugin table gives it. Throws if it cannot be opened.
class Card {
 public:
  explicit Card(const std::string& arguments = "?memory=64MiB");
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  uint64_t read_csr(uint32_t offset) { return table().read_csr(device_, offset); }
  void write_csr(uint32_t offset, uint64_t value) { table().write_csr(device_, offset, value); }
  int wait(int64_t timeout_ns) { return table().wait(device_, timeout_ns); }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }

  /// The table of the shared object under test.
  static const struct nkv_device_plugin& table();

 private:
  const struct nkv_device_plugin& table_;
  void* device_;
  std::span<std::byte> memory_;
};

struct QueueSetup {
  uint32_t number = 0;
  uint32_t entries = 16;
  uint64_t sq_base = 0;
  uint64_t cq_base = 0;
  uint64_t window_base = 0;
  uint64_t window_bytes = 0;
  uint16_t tenant = 0;
};

/// The host's end of a queue.
class QueueDriver {
 public:
  QueueDriver(Card& card, const QueueSetup& setup) : card_(&card), setup_(setup) {}

  /// Writes the registers and enables; whether the device accepted.
  bool enable();

  /// Writes a command into the ring without ringing the doorbell.
  void place(const CommandBytes& command);
  void ring() { card_->write_csr(NKV_REG_SQ_TAIL(setup_.number), sq_tail_); }

  /// Whether the next completion is there; copies it if so, without telling the device.
  bool poll(nkv_completion* completion);

  /// Tells the device that everything polled has been consumed.
  void release() { card_->write_csr(NKV_REG_CQ_HEAD(setup_.number), cq_head_); }

  /// One command from end to end. Throws if no completion comes.
  nkv_completion run(const CommandBytes& command);

 private:
  Card* card_;
  QueueSetup setup_;
  uint16_t sq_tail_ = 0;
  uint16_t cq_head_ = 0;
};

/// A card with one queue, and an arena over the queue's window.
class Device {
 public:
  static constexpr uint16_t kTenant = 7;

  explicit Device(const std::string& arguments = "?memory=64MiB");

  template <typename T>
  nkv_completion run(const T& command) {
    static_assert(sizeof(T) == sizeof(CommandBytes));
    return queue_.run(std::bit_cast<CommandBytes>(command));
  }

  /// Zeroed bytes of the window that were not handed out yet, on a page boundary.
  uint64_t allocate(uint64_t bytes);

  /// Everything handed out since `mark` may be handed out again.
  [[nodiscard]] uint64_t mark() const { return next_; }
  void release(uint64_t mark) { next_ = mark; }

  template <typename T>
  uint64_t put(std::span<const T> values) {
    const uint64_t address = allocate(values.size_bytes());
    write(address, values);
    return address;
  }

  template <typename T>
  void write(uint64_t address, std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty()) return;  // Whose data() may be null.
    std::memcpy(window_.subspan(address, values.size_bytes()).data(), values.data(),
                values.size_bytes());
  }

  template <typename T>
  [[nodiscard]] std::vector<T> read(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    if (count != 0) {
      std::memcpy(values.data(), window_.subspan(address, count * sizeof(T)).data(),
                  count * sizeof(T));
    }
    return values;
  }

  [[nodiscard]] std::span<std::byte> window() const { return window_; }
  [[nodiscard]] Card& card() { return card_; }

  /// A second queue over the same window, of another tenant.
  QueueDriver other_tenant();

 private:
  Card card_;
  QueueDriver queue_;
  std::span<std::byte> window_;
  uint64_t next_ = 0;
};

/// Rounds up to a burst, where result parts begin.
constexpr uint64_t burst_aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_DEVICE_HPP_
