#include "media/guarded.hpp"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <mutex>

#include "media/stand_in.hpp"

namespace nearkv {
namespace {

// In the thread's own block from its start: the handler must not be the first to allocate it.
[[gnu::tls_model("initial-exec")]] thread_local GuardedFrame* innermost = nullptr;

// The disposition of SIGBUS, the one thing here that is the process's.
struct Disposition {
  std::mutex mutex;
  unsigned holders = 0;
  bool buried = false;  ///< Another handler lies on ours, and may call it.
  // Written while ours is not installed, read by the handler.
  struct sigaction previous{};
};

Disposition& disposition() {
  // Never destroyed: the handler may outlive static objects.
  static Disposition* const only = new Disposition;
  return *only;
}

// What the handler may use: a function's static is not for signal handlers.
std::atomic<const struct sigaction*> chained = nullptr;

bool is_fault(const siginfo_t& info) {
  // Neither sent by a process nor a warning about memory that nobody is reading.
  return info.si_code == BUS_ADRALN || info.si_code == BUS_ADRERR || info.si_code == BUS_OBJERR ||
         info.si_code == BUS_MCEERR_AR;
}

/// Ends the process as SIGBUS does by default: a fault by coming back to it, so that a dump shows
/// it; one that was sent by sending it again.
void do_default(int signal, const siginfo_t& info) {
  struct sigaction normal{};
  normal.sa_handler = SIG_DFL;
  ::sigaction(signal, &normal, nullptr);
  if (info.si_code <= 0) ::raise(signal);
}

/// What would have happened without us.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction* const next = chained.load(std::memory_order_acquire);
  const bool with_info = next != nullptr && (next->sa_flags & SA_SIGINFO) != 0;
  if (!with_info && (next == nullptr || next->sa_handler == SIG_DFL)) {
    do_default(signal, *info);
    return;
  }
  if (!with_info && next->sa_handler == SIG_IGN) {
    if (info->si_code > 0) do_default(signal, *info);  // the kernel lets nobody ignore a fault
    return;
  }
  sigset_t blocked = next->sa_mask;
  sigset_t before;
  if ((next->sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if (with_info) {
    next->sa_sigaction(signal, info, context);
  } else {
    next->sa_handler(signal);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  if (is_fault(*info)) {
    GuardedFrame* const frame =
        GuardedFrame::catch_fault(reinterpret_cast<std::uintptr_t>(info->si_addr));
    if (frame != nullptr) {
      // Ours blocks nothing, but who called us from above may have.
      ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
      siglongjmp(frame->jump, 1);
    }
    if (info->si_code == BUS_ADRERR &&
        StandIn::catch_fault(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
      return;
    }
  }
  pass_on(signal, info, context);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_sigbus;
}

}  // namespace

GuardedFrame::GuardedFrame(std::span<const std::byte> mapping) noexcept
    : begin_(reinterpret_cast<std::uintptr_t>(mapping.data())),
      end_(begin_ + mapping.size()),
      outer_(innermost) {
  innermost = this;
}

GuardedFrame::~GuardedFrame() { innermost = outer_; }

GuardedFrame* GuardedFrame::catch_fault(std::uintptr_t address) noexcept {
  for (GuardedFrame* frame = innermost; frame != nullptr; frame = frame->outer_) {
    if (address < frame->begin_ || address >= frame->end_) continue;
    frame->fault_address_ = address;
    return frame;
  }
  return nullptr;
}

SigbusHandler::SigbusHandler() {
  Disposition& shared = disposition();
  const std::lock_guard lock(shared.mutex);
  if (shared.holders++ != 0 || shared.buried) return;
  // Known before the handler can run.
  ::sigaction(SIGBUS, nullptr, &shared.previous);
  chained.store(&shared.previous, std::memory_order_release);
  struct sigaction ours{};
  ours.sa_sigaction = &on_sigbus;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigaction(SIGBUS, &ours, nullptr);
}

SigbusHandler::~SigbusHandler() {
  Disposition& shared = disposition();
  const std::lock_guard lock(shared.mutex);
  if (--shared.holders != 0 || shared.buried) return;
  struct sigaction present{};
  ::sigaction(SIGBUS, nullptr, &present);
  if (is_ours(present)) {
    ::sigaction(SIGBUS, &shared.previous, nullptr);
  } else {
    shared.buried = true;
  }
}

}  // namespace nearkv
