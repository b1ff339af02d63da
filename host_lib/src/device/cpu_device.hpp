// `cpu:`: the cores of this machine as a near-data device.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/engine.hpp"
#include "device/uri.hpp"
#include "device/workers.hpp"
#include "nearkv/device.hpp"
#include "page/page_checks.hpp"
#include "persist/persistence.hpp"

namespace nearkv {

/// Registers and rings of the contract over an Engine. One dispatcher thread, which is the first
/// worker, takes commands from all queues in turn. While doorbells in memory are enabled it looks
/// at them: without a pause for a millisecond after the last command, then every 50 to 200
/// microseconds.
class CpuDevice final : public Device {
 public:
  /// Memory to work on, what keeps it mapped, and how stores to it become durable.
  struct Backing {
    std::span<std::byte> bytes;
    std::shared_ptr<void> owner;
    std::unique_ptr<Persistence> persistence;
    Durability durability = Durability::kNone;
    std::chrono::nanoseconds most_check_age{0};  ///< As PageChecks has it.
  };

  /// Consumes the URI's options.
  static Status open(DeviceUri uri, std::unique_ptr<Device>* device, std::string* reason);

  /// Over memory that somebody else has; `memory` begins and ends at whole pages of the system.
  static Status open_in(DeviceUri uri, std::span<std::byte> memory, std::shared_ptr<void> owner,
                        std::unique_ptr<Device>* device, std::string* reason);

  CpuDevice(Backing backing, const Workers::Options& workers);

  ~CpuDevice() override;

  std::uint64_t read_csr(std::uint32_t offset) override;
  void write_csr(std::uint32_t offset, std::uint64_t value) override;
  std::span<std::byte> memory() override { return backing_.bytes; }
  [[nodiscard]] Durability durability() const override { return backing_.durability; }
  [[nodiscard]] std::chrono::nanoseconds oldest_check() const override { return checks_.oldest(); }
  [[nodiscard]] std::vector<int> cores() const override;
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override;

 private:
  /// Registers of one queue as the host writes them, and the dispatcher's place in its rings.
  struct Queue {
    std::atomic<std::uint64_t> sq_base{0};
    std::atomic<std::uint64_t> cq_base{0};
    std::atomic<std::uint64_t> ring_entries{0};
    std::atomic<std::uint64_t> control{0};
    std::atomic<std::uint64_t> sq_tail{0};
    std::atomic<std::uint64_t> cq_head{0};
    std::atomic<std::uint64_t> window_base{0};
    std::atomic<std::uint64_t> window_bytes{0};
    std::atomic<std::uint64_t> tenant{0};
    std::atomic<std::uint64_t> status{0};

    // The dispatcher's alone, under execution_.
    std::span<std::byte> submissions;
    std::span<std::byte> completions;
    Window window;
    std::uint32_t entries = 0;
    std::uint16_t head = 0;     ///< Commands fetched, modulo 2^16.
    std::uint16_t posted = 0;   ///< Completions posted, modulo 2^16.
    nkv_doorbell_line heard{};  ///< Its doorbell in memory as it was looked at last.
    std::uint16_t awaited = 0;  ///< SQ_TAIL as it was looked at last, and since when it is so.
    std::chrono::steady_clock::time_point awaited_since;
  };

  void serve();
  /// What came of looking at a queue.
  enum class Served : std::uint8_t {
    kNone,
    kOne,
    kAwaited,  ///< A command that is not written yet.
  };
  Served serve_queue(Queue* queue);
  Served take_command(Queue* queue);
  void post(Queue* queue, nkv_completion completion);
  void set_enabled(Queue* queue, bool enabled);
  void start(Queue* queue);
  void reset();
  void enable_doorbells(std::uint64_t queues);
  [[nodiscard]] nkv_doorbell_line doorbell(std::size_t index) const;
  bool hear();
  void watch_doorbells(std::uint32_t seen);
  [[nodiscard]] std::atomic<std::uint64_t>* stored_register(std::uint32_t offset);

  Backing backing_;
  PageChecks checks_;
  Workers workers_;
  Engine engine_;
  std::array<Queue, NKV_MAX_QUEUES> queues_;
  std::atomic<std::uint64_t> doorbell_base_{0};
  std::atomic<std::uint64_t> doorbell_enable_{0};

  std::mutex execution_;  ///< Held while a command runs and while queues start and stop.
  std::atomic<std::uint32_t> doorbells_{0};
  std::atomic<bool> stop_{false};
  std::mutex completed_mutex_;
  std::condition_variable completed_;
  std::uint64_t completion_count_ = 0;  ///< Under completed_mutex_.
  std::thread dispatcher_;
};

}  // namespace nearkv
