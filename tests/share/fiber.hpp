// Simulated hosts take turns on one thread, at any memory access.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace nearkv::test {

/// A function with a stack of its own. Exceptions must not leave it.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it yields or ends. Not from within a fiber.
  void resume();
  /// From within the body: back to whoever resumed it.
  void yield();
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  static void enter(unsigned high, unsigned low);
  void run();

  std::function<void()> body_;
  std::vector<std::byte> stack_;
  ucontext_t own_{};
  ucontext_t caller_{};
  bool has_ended_ = false;
  // What AddressSanitizer wants to know when stacks change.
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  void* own_fake_stack_ = nullptr;
};

}  // namespace nearkv::test
