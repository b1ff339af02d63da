// Memory errors as statuses: the SIGBUS that a poisoned line of a DAX device, or a file cut short
// under its mapping, raises at whoever touches it.
#pragma once

#include <setjmp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "nearkv/status.hpp"

namespace nearkv {

/// While at least one exists, SIGBUS goes to a handler that knows guarded() and StandIn. The
/// disposition of a signal belongs to the whole process, and so does this: the first object sets it
/// and the last one restores it, unless somebody has put another handler on top since; then ours
/// stays below it, for that one may call it. Faults that are not guarded go to the handler found at
/// first, as if ours were not there. Thread safe.
class SigbusHandler {
 public:
  SigbusHandler();
  SigbusHandler(const SigbusHandler&) = delete;
  SigbusHandler& operator=(const SigbusHandler&) = delete;
  ~SigbusHandler();
};

/// One guarded access of this thread, for the handler to find; guarded() makes them.
class GuardedFrame {
 public:
  explicit GuardedFrame(std::span<const std::byte> mapping) noexcept;
  GuardedFrame(const GuardedFrame&) = delete;
  GuardedFrame& operator=(const GuardedFrame&) = delete;
  ~GuardedFrame();

  [[nodiscard]] std::uintptr_t fault_address() const { return fault_address_; }

  /// The innermost frame of the calling thread whose mapping holds `address`, which it notes;
  /// nullptr if there is none. Async-signal-safe.
  static GuardedFrame* catch_fault(std::uintptr_t address) noexcept;

  sigjmp_buf jump;

 private:
  std::uintptr_t begin_;
  std::uintptr_t end_;
  GuardedFrame* outer_;
  volatile std::uintptr_t fault_address_ = 0;
};

/// Runs `access`. kPoison, with the address in `fault_address`, if a SIGBUS within `mapping` cut it
/// short: what it had written until then stays written. Needs a SigbusHandler for the duration.
///
/// `access` returns nothing, takes no lock and holds nothing that needs a destructor, since a fault
/// leaves it in the middle. Guarded accesses may nest. Thread safe; costs some nanoseconds.
template <typename Access>
Status guarded(std::span<const std::byte> mapping, Access&& access, std::uintptr_t* fault_address) {
  static_assert(std::is_void_v<std::invoke_result_t<Access>>);
  GuardedFrame frame(mapping);
  // Without the signal mask, which costs a system call: the handler blocks nothing.
  if (sigsetjmp(frame.jump, 0) != 0) {
    *fault_address = frame.fault_address();
    return Status::kPoison;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  access();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return Status::kOk;
}

}  // namespace nearkv
