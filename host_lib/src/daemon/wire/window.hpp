// What lies where in a client's window.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nkv_abi.h"

namespace nearkv {

/// Offsets of a window's parts, as a daemon lays them out and tells them in its welcome.
struct WindowLayout {
  std::uint64_t submissions_at = 0;
  std::uint64_t completions_at = 0;
  std::uint64_t requests_at = 0;
  std::uint64_t request_area_bytes = 0;
  std::uint64_t data_at = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t window_bytes = 0;

  static WindowLayout make(std::uint64_t request_area_bytes, std::uint64_t data_bytes);
};

/// A daemon's answer to a hello that it grants; whoever refuses changes `status` and adds a reason.
[[nodiscard]] nkv_daemon_welcome welcome_to(const WindowLayout& layout);

/// A word that the other side may be writing.
[[nodiscard]] inline std::atomic_ref<std::uint32_t> shared_word(std::uint32_t& word) {
  return std::atomic_ref<std::uint32_t>(word);
}

/// A mapped window's parts. Whatever the other side writes may change at any moment.
struct WindowView {
  nkv_daemon_ring_state* state = nullptr;
  std::span<nkv_daemon_submission> submissions;
  std::span<nkv_daemon_completion> completions;
  std::span<std::byte> requests;
  std::span<std::byte> data;

  /// `window` is as large as the layout says.
  static WindowView make(std::span<std::byte> window, const WindowLayout& layout);
};

}  // namespace nearkv
