// An open file of the card's driver, call by call: what a hostile process has in its hands.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "nkv_card.h"

namespace nearkv::test {

/// The device node under test.
inline std::string card_path() {
  const char* const chosen = std::getenv("NEARKV_TEST_CARD");
  return chosen != nullptr ? chosen : "/dev/nearkv0";
}

inline bool has_card() { return ::access(card_path().c_str(), R_OK | W_OK) == 0; }

/// For GTEST_SKIP in each fixture's SetUp.
inline constexpr const char* kNoCard =
    "no card: /dev/nearkv0 is not there; ./nearkv vm --test boots a guest that has one";

/// An attribute of the card, as its administrator reads it.
inline std::string card_attribute(const std::string& name) {
  std::ifstream file("/sys/class/misc/nearkv0/device/nearkv/" + name);
  std::string text;
  std::getline(file, text);
  return text;
}

inline bool set_card_attribute(const std::string& name, const std::string& text) {
  std::ofstream file("/sys/class/misc/nearkv0/device/nearkv/" + name);
  file << text << std::flush;
  return file.good();
}

/// A mapping of a file; null if it was refused, with errno telling why.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, std::uint64_t at, std::size_t bytes, int protection = PROT_READ | PROT_WRITE,
          int flags = MAP_SHARED) {
    void* const place = ::mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(at));
    if (place != MAP_FAILED) bytes_ = {static_cast<std::byte*>(place), bytes};
  }
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }

  explicit operator bool() const { return !bytes_.empty(); }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class CardFile {
 public:
  static constexpr std::uint32_t kEntries = NKV_MIN_RING_ENTRIES;
  static constexpr std::uint64_t kRingBytes = kEntries * std::uint64_t{NKV_COMMAND_BYTES};
  static constexpr std::uint64_t kPage = NKV_DOORBELL_STRIDE_BYTES;

  CardFile() : fd_(::open(card_path().c_str(), O_RDWR | O_CLOEXEC)) {}
  /// With a window of so many bytes, all of it mapped.
  explicit CardFile(std::uint64_t bytes) : CardFile() {
    if (take_window(bytes)) window_ = map(0, bytes);
  }
  CardFile(const CardFile&) = delete;
  CardFile& operator=(const CardFile&) = delete;
  ~CardFile() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::span<std::byte> window() const { return window_.bytes(); }

  /// 0, or what errno says.
  template <typename Argument>
  int call(unsigned long request, Argument* argument) const {
    return ::ioctl(fd_, request, argument) == 0 ? 0 : errno;
  }

  [[nodiscard]] nkv_card_info info() const {
    nkv_card_info info{};
    (void)call(NKV_IOCTL_INFO, &info);
    return info;
  }

  bool take_window(std::uint64_t bytes, const std::string& name = "", std::uint32_t flags = 0) {
    nkv_card_window window{};
    window.bytes = bytes;
    window.flags = flags | (name.empty() ? 0 : NKV_CARD_WINDOW_FLAG_KEEP);
    name.copy(reinterpret_cast<char*>(window.name), sizeof(window.name));
    errno = call(NKV_IOCTL_WINDOW, &window);
    return errno == 0;
  }

  [[nodiscard]] Mapping map(std::uint64_t at, std::size_t bytes) const { return {fd_, at, bytes}; }

  /// Rings at the window's start, and commands that may touch all of it.
  [[nodiscard]] nkv_card_queue whole_window(std::uint32_t index = 0) const {
    nkv_card_queue queue{};
    queue.index = index;
    queue.ring_entries = kEntries;
    queue.sq_base = index * 2 * kRingBytes;
    queue.cq_base = queue.sq_base + kRingBytes;
    queue.window_bytes = window().size();
    return queue;
  }

  /// Starts a queue and maps its doorbell; 0 or errno.
  int start(nkv_card_queue queue) {
    const int error = call(NKV_IOCTL_QUEUE_START, &queue);
    if (error != 0) return error;
    queue_ = queue;
    tail_ = 0;
    std::ranges::fill(window().subspan(queue.sq_base, 2 * kRingBytes), std::byte{0});
    doorbell_ = map(doorbell_at(queue.index), kPage);
    return doorbell_ ? 0 : errno;
  }

  int stop(std::uint32_t index = 0) {
    const nkv_card_queue_index which{.index = index, .reserved = 0};
    return call(NKV_IOCTL_QUEUE_STOP, &which);
  }

  /// What the queue started last may do, as it was granted.
  [[nodiscard]] const nkv_card_queue& queue() const { return queue_; }

  [[nodiscard]] static std::uint64_t doorbell_at(std::uint32_t index) {
    return (std::uint64_t{NKV_CARD_MAP_DOORBELLS} + index) * kPage;
  }
  [[nodiscard]] nkv_doorbell_line* doorbell() const {
    return reinterpret_cast<nkv_doorbell_line*>(doorbell_.bytes().data());
  }

  /// Submits to the queue started last; more than a ring may not be open.
  template <typename Command>
  void submit(const Command& command) {
    static_assert(sizeof(Command) == NKV_COMMAND_BYTES);
    Command written = command;
    const unsigned phase = tail_ / kEntries % 2 == 0 ? NKV_SLOT_FLAG_PHASE : 0;
    written.flags = static_cast<std::uint8_t>((command.flags & ~NKV_SLOT_FLAG_PHASE) | phase);
    std::memcpy(window().data() + queue_.sq_base + tail_ % kEntries * NKV_COMMAND_BYTES, &written,
                sizeof(written));
    ++tail_;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic_ref(doorbell()->sq_tail).store(tail_);
  }

  /// The completion of the command submitted last, taken by looking for it; status INTERNAL if it
  /// does not come in time.
  nkv_completion take(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const auto index = static_cast<std::uint16_t>(tail_ - 1);
    auto* const place = reinterpret_cast<nkv_completion*>(window().data() + queue_.cq_base +
                                                          index % kEntries * NKV_COMPLETION_BYTES);
    const std::uint8_t phase = index / kEntries % 2 == 0 ? 1 : 0;
    while (std::atomic_ref(place->phase).load(std::memory_order_acquire) != phase) {
      if (std::chrono::steady_clock::now() > deadline) {
        nkv_completion none{};
        none.status = NKV_STATUS_INTERNAL;
        return none;
      }
    }
    nkv_completion completion{};
    std::memcpy(&completion, place, sizeof(completion));
    std::atomic_ref(doorbell()->cq_head).store(tail_);
    return completion;
  }

  /// Whether a NOP comes back.
  bool works() {
    nkv_pages_command nop{};
    nop.opcode = NKV_OPCODE_NOP;
    nop.tag = static_cast<std::uint16_t>(tail_ + 77);
    submit(nop);
    const nkv_completion completion = take();
    return completion.status == NKV_STATUS_OK && completion.tag == nop.tag;
  }

 private:
  int fd_ = -1;
  Mapping window_;
  Mapping doorbell_;
  nkv_card_queue queue_{};
  std::uint16_t tail_ = 0;
};

}  // namespace nearkv::test
