// The other ends of a window's rings: a stand-in for the daemon, or for its client.
#pragma once

#include <atomic>
#include <cstring>
#include <span>

#include "daemon/wire/window.hpp"

namespace nearkv {

/// Puts submissions in and takes completions out, as a client does. Thread safety: one thread at a
/// time.
class ClientRings {
 public:
  explicit ClientRings(const WindowView& window) : window_(window) {}

  void put(const nkv_daemon_submission& submission) {
    std::memcpy(&window_.submissions[tail_ % NKV_DAEMON_RING_ENTRIES], &submission,
                sizeof(submission));
    shared_word(window_.state->submission_tail).store(++tail_, std::memory_order_release);
  }

  bool take(nkv_daemon_completion* completion) {
    auto& entry = window_.completions[head_ % NKV_DAEMON_RING_ENTRIES];
    const std::uint64_t first =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(&entry)).load(std::memory_order_acquire);
    if (((first & 1) != 0) != (head_ / NKV_DAEMON_RING_ENTRIES % 2 == 0)) return false;
    std::memcpy(completion, &entry, sizeof(*completion));
    shared_word(window_.state->completion_head).store(++head_, std::memory_order_release);
    return true;
  }

 private:
  WindowView window_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
};

/// Takes submissions out and puts completions in, as a daemon does. The client must not have more
/// in flight than there are entries. Thread safety: one thread at a time.
class DaemonRings {
 public:
  explicit DaemonRings(const WindowView& window) : window_(window) {}

  [[nodiscard]] bool has_submission() const {
    return shared_word(window_.state->submission_tail).load(std::memory_order_acquire) != head_;
  }

  [[nodiscard]] nkv_daemon_submission take() {
    return window_.submissions[head_++ % NKV_DAEMON_RING_ENTRIES];
  }

  /// Whether the client is to be woken.
  [[nodiscard]] bool put(nkv_daemon_completion completion, bool notify) {
    completion.phase = static_cast<std::uint8_t>(tail_ / NKV_DAEMON_RING_ENTRIES % 2 == 0);
    auto* const place =
        reinterpret_cast<std::byte*>(&window_.completions[tail_ % NKV_DAEMON_RING_ENTRIES]);
    ++tail_;
    std::uint64_t first = 0;
    std::memcpy(&first, &completion, sizeof(first));
    std::memcpy(place + sizeof(first),
                std::as_bytes(std::span(&completion, 1)).subspan(sizeof(first)).data(),
                sizeof(completion) - sizeof(first));
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place))
        .store(first, std::memory_order_release);
    // Against a client that looks at the ring for the last time and then sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return notify || shared_word(window_.state->client_sleeps).load(std::memory_order_relaxed) != 0;
  }

  /// While true, the client announces submissions by its pipe.
  void announce_sleep(bool sleeps) {
    shared_word(window_.state->daemon_sleeps).store(sleeps ? 1 : 0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  WindowView window_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

}  // namespace nearkv
