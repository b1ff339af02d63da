// A device with one queue and a bump allocator over its window: enough to drive every command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nearkv/device.hpp"
#include "nearkv/queue.hpp"
#include "nkv_abi.h"
#include "support/kv_data.hpp"

namespace nearkv::test {

/// Addresses are those of the queue's window, which spans all of the device's memory from 1 MiB on.
class BenchDevice {
 public:
  explicit BenchDevice(const std::string& uri);

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] std::span<std::byte> window() { return window_; }

  /// Room in the window, zeroed, at a multiple of a page grain.
  std::uint64_t allocate(std::uint64_t bytes);
  /// All that has been allocated.
  [[nodiscard]] std::span<std::byte> allocated() { return window_.first(next_); }
  /// Forgets all allocations.
  void clear() { next_ = 0; }

  template <typename T>
  [[nodiscard]] T* at(std::uint64_t address) {
    return reinterpret_cast<T*>(window_.data() + address);
  }
  template <typename T>
  std::uint64_t store(std::span<const T> values) {
    const std::uint64_t address = allocate(values.size_bytes());
    std::copy(values.begin(), values.end(), at<T>(address));
    return address;
  }

  /// Submits one command and waits for its completion.
  template <typename Command>
  nkv_completion run(const Command& command) {
    return run_on(*queue_, command);
  }

  /// The same through a second queue over the same window, of another tenant.
  template <typename Command>
  nkv_completion run_as_stranger(const Command& command) {
    return run_on(*stranger_, command);
  }

  /// Submits one command and resets the device that many ticks later, whatever it has come to.
  template <typename Command>
  void reset_amid(const Command& command, std::uint64_t ticks) {
    std::uint16_t tag = 0;
    check(queue_->submit(command, &tag));
    queue_->ring();
    reset_after(ticks);
  }
  /// Resets the device (CONTROL.RESET) that many ticks from now, and opens its queues anew.
  void reset_after(std::uint64_t ticks);
  /// Until a reset is over: what was in flight has been answered.
  void await_ready();

 private:
  static void check(Status status);
  void open_queues();

  template <typename Command>
  static nkv_completion run_on(Queue& queue, const Command& command) {
    std::uint16_t tag = 0;
    check(queue.submit(command, &tag));
    return finish(queue, tag);
  }
  static nkv_completion finish(Queue& queue, std::uint16_t tag);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Queue> stranger_;
  std::span<std::byte> window_;
  std::uint64_t next_ = 0;
};

/// A sequence of one KV head on a BenchDevice.
struct StoredList {
  std::uint64_t page_list = 0;  ///< Address of the entries.
  std::size_t tokens = 0;
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  std::uint32_t page_bytes = 0;
  nkv_completion completion{};

  [[nodiscard]] std::size_t pages() const {
    return (tokens + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
  }
};

/// Rows and free places for data.tokens rounded up to whole pages (the rest zero rows), and the
/// command that builds the pages; `list` may be nullptr.
nkv_append_command append_command(BenchDevice* bench, const KvData& data, std::uint8_t k_form,
                                  std::uint8_t v_form, std::uint16_t generation = 1,
                                  StoredList* list = nullptr);

/// Appends data.tokens rounded up to whole pages (the rest zero rows); expects it to succeed unless
/// `expected` says otherwise.
StoredList append(BenchDevice* bench, const KvData& data, std::uint8_t k_form = NKV_ROW_FORM_DELTA4,
                  std::uint8_t v_form = NKV_ROW_FORM_DELTA4, std::uint16_t generation = 1);

/// Results of one ATTEND, fp32.
struct AttendOutcome {
  nkv_completion completion{};
  std::vector<float> output;  ///< [rows][value_dim].
  std::vector<float> lse;
  std::vector<float> bound;

  [[nodiscard]] std::span<const float> row(std::size_t index, std::size_t dim) const {
    return std::span(output).subspan(index * dim, dim);
  }
};

/// A command for `list` with sane fields, to be adjusted by the test.
nkv_attend_command attend_command(BenchDevice* bench, const StoredList& list,
                                  std::span<const std::uint16_t> queries);
AttendOutcome attend(BenchDevice* bench, const nkv_attend_command& command);
/// What a command that has completed so has left.
AttendOutcome attend_outcome(BenchDevice* bench, const nkv_attend_command& command,
                             const nkv_completion& completion);

struct TopKOutcome {
  nkv_completion completion{};
  std::vector<std::vector<std::uint32_t>> ids;  ///< Per row, as many as were found.
  std::vector<std::vector<float>> scores;
};

nkv_topk_command topk_command(BenchDevice* bench, const StoredList& list,
                              std::span<const std::uint16_t> queries, std::uint16_t top_k,
                              std::uint8_t mode);
TopKOutcome top_k(BenchDevice* bench, const nkv_topk_command& command);

}  // namespace nearkv::test
