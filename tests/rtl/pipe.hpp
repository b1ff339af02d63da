// A Verilated module that answers each input after as many cycles: what tests of pipelines begin
// with.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "simulation.hpp"

namespace nearkv::rtl_test {

/// Holds a module whose valid_o follows valid_i by `latency` cycles, and what it is to say then.
template <typename Module, typename Expected>
class Pipe : public Simulation<Module> {
 public:
  virtual ~Pipe() = default;

  /// One cycle: an answer comes when it is due, and only then.
  void cycle() {
    this->tick();
    const bool is_due = !due_.empty() && due_.front().cycle == this->cycles();
    ASSERT_EQ((*this)->valid_o, is_due);
    if (!is_due) return;
    check(due_.front().expected);
    due_.pop_front();
  }

  /// Until nothing is on its way, and a little longer.
  void drain() {
    for (unsigned i = 0; i < latency_ + 2; ++i) cycle();
    EXPECT_TRUE(due_.empty());
  }

  /// Expects no answer to what is on its way.
  void forget() { due_.clear(); }

 protected:
  explicit Pipe(unsigned latency) : latency_(latency) { this->reset(); }

  /// The answer to what the next cycle takes.
  void expect(Expected expected) {
    due_.push_back({this->cycles() + latency_, std::move(expected)});
  }

  /// One cycle in which the inputs that were set are valid.
  void send_expecting(Expected expected) {
    (*this)->valid_i = 1;
    expect(std::move(expected));
    cycle();
    (*this)->valid_i = 0;
  }

 private:
  struct Due {
    std::uint64_t cycle;
    Expected expected;
  };

  /// Compares the outputs, now valid.
  virtual void check(const Expected& expected) = 0;

  unsigned latency_;
  std::deque<Due> due_;
};

}  // namespace nearkv::rtl_test
