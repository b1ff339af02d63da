#include "share/fiber.hpp"

#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define NEARKV_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NEARKV_TEST_ASAN 1
#endif
#endif
#ifdef NEARKV_TEST_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace nearkv::test {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

#ifdef NEARKV_TEST_ASAN
void leave_stack(void** fake_stack, const void* stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
void arrive_on_stack(void* fake_stack, const void** left, std::size_t* left_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, left, left_bytes);
}
#else
void leave_stack(void**, const void*, std::size_t) {}
void arrive_on_stack(void*, const void**, std::size_t*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(kStackBytes) {
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.data();
  own_.uc_stack.ss_size = stack_.size();
  own_.uc_link = nullptr;
  // makecontext passes integers only.
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
}

void Fiber::enter(unsigned high, unsigned low) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  reinterpret_cast<Fiber*>((std::uintptr_t{high} << 32) | low)->run();
}

void Fiber::run() {
  arrive_on_stack(nullptr, &caller_stack_, &caller_stack_bytes_);
  body_();
  has_ended_ = true;
  leave_stack(nullptr, caller_stack_, caller_stack_bytes_);
  ::setcontext(&caller_);
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  leave_stack(&fake_stack, stack_.data(), stack_.size());
  ::swapcontext(&caller_, &own_);
  arrive_on_stack(fake_stack, nullptr, nullptr);
}

void Fiber::yield() {
  leave_stack(&own_fake_stack_, caller_stack_, caller_stack_bytes_);
  ::swapcontext(&own_, &caller_);
  arrive_on_stack(own_fake_stack_, &caller_stack_, &caller_stack_bytes_);
}

}  // namespace nearkv::test
