// A window's two rings, from either side: entries, phases, and who wakes whom.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/wire/window.hpp"

namespace nearkv {

/// Puts submissions in and takes completions out, as a client does. Thread safety: one thread at a
/// time, but for is_new().
class ClientRings {
 public:
  ClientRings() = default;
  explicit ClientRings(const WindowView& window) : window_(window) {}

  /// The caller has seen to there being room. Gives whether the daemon is to be woken.
  [[nodiscard]] bool put(const nkv_daemon_submission& submission) {
    std::memcpy(&window_.submissions[tail_ % NKV_DAEMON_RING_ENTRIES], &submission,
                sizeof(submission));
    shared_word(window_.state->submission_tail).store(++tail_, std::memory_order_release);
    // Against a daemon that looks at the ring for the last time and then sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return shared_word(window_.state->daemon_sleeps).load(std::memory_order_relaxed) != 0;
  }

  /// Completions taken so far.
  [[nodiscard]] std::uint32_t head() const { return head_; }

  /// Whether there is a completion after the first `head`.
  [[nodiscard]] bool is_new(std::uint32_t head) const {
    auto* const word =
        reinterpret_cast<std::uint64_t*>(&window_.completions[head % NKV_DAEMON_RING_ENTRIES]);
    const std::uint64_t first = std::atomic_ref(*word).load(std::memory_order_acquire);
    return ((first & 1) != 0) == (head / NKV_DAEMON_RING_ENTRIES % 2 == 0);
  }

  /// The next completion, if there is one.
  bool take(nkv_daemon_completion* completion) {
    if (!is_new(head_)) return false;
    std::memcpy(completion, &window_.completions[head_ % NKV_DAEMON_RING_ENTRIES],
                sizeof(*completion));
    shared_word(window_.state->completion_head).store(++head_, std::memory_order_release);
    return true;
  }

  /// While true, the daemon announces completions by the client's pipe.
  void announce_sleep(bool sleeps) {
    shared_word(window_.state->client_sleeps).store(sleeps ? 1 : 0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  WindowView window_;
  std::uint32_t tail_ = 0;  ///< Submissions written.
  std::uint32_t head_ = 0;
};

/// Takes submissions out and puts completions in, as a daemon does. Thread safety: one thread at a
/// time.
class DaemonRings {
 public:
  explicit DaemonRings(const WindowView& window) : window_(window) {}

  [[nodiscard]] bool has_submission() const {
    return shared_word(window_.state->submission_tail).load(std::memory_order_acquire) != head_;
  }

  /// kOverrun: the client has put in more than completion entries that nobody has to wait for.
  enum class Taken : std::uint8_t { kNone, kOne, kOverrun };
  [[nodiscard]] Taken take(nkv_daemon_submission* submission) {
    const std::uint32_t written =
        shared_word(window_.state->submission_tail).load(std::memory_order_acquire) - head_;
    if (written == 0) return Taken::kNone;
    const std::uint32_t consumed =
        shared_word(window_.state->completion_head).load(std::memory_order_acquire);
    if (written > NKV_DAEMON_RING_ENTRIES || head_ + 1 - consumed > NKV_DAEMON_RING_ENTRIES) {
      return Taken::kOverrun;
    }
    std::memcpy(submission, &window_.submissions[head_ % NKV_DAEMON_RING_ENTRIES],
                sizeof(*submission));
    ++head_;
    return Taken::kOne;
  }

  /// Gives whether the client is to be woken; `notify`: in any case.
  [[nodiscard]] bool put(nkv_daemon_completion completion, bool notify) {
    completion.phase = static_cast<std::uint8_t>(tail_ / NKV_DAEMON_RING_ENTRIES % 2 == 0);
    auto* const place =
        reinterpret_cast<std::byte*>(&window_.completions[tail_ % NKV_DAEMON_RING_ENTRIES]);
    ++tail_;
    const auto bytes = std::as_bytes(std::span(&completion, 1));
    std::uint64_t first = 0;
    std::memcpy(&first, bytes.data(), sizeof(first));
    std::memcpy(place + sizeof(first), bytes.data() + sizeof(first), bytes.size() - sizeof(first));
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place))
        .store(first, std::memory_order_release);
    // Against a client that looks at the ring for the last time and then sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return notify || shared_word(window_.state->client_sleeps).load(std::memory_order_relaxed) != 0;
  }

  /// While true, the client announces submissions by the daemon's pipe.
  void announce_sleep(bool sleeps) {
    shared_word(window_.state->daemon_sleeps).store(sleeps ? 1 : 0, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  WindowView window_;
  std::uint32_t head_ = 0;  ///< Submissions taken.
  std::uint32_t tail_ = 0;  ///< Completions written.
};

}  // namespace nearkv
