// A Verilated module under a clock: what every test of tests/rtl begins with.
#pragma once

#include <verilated.h>
#if VM_COVERAGE
#include <verilated_cov.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "support/seed.hpp"

namespace nearkv::rtl_test {

/// The longest list of the build that is tested: ListPages of nkv_pkg.
inline constexpr std::uint32_t kListPages = NEARKV_RTL_LIST_PAGES;
inline constexpr std::uint32_t kListTokens = kListPages * 64;

/// Holds one instance of a Verilated module that has ports clk_i and rst_ni, in its own context.
template <typename Module>
class Simulation {
 public:
  Simulation() : module_(std::make_unique<Module>(&context_)) {}
  ~Simulation() {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    module_->final();
#if VM_COVERAGE
    write_coverage();
#endif
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Module* operator->() { return module_.get(); }
  Module& operator*() { return *module_; }

  /// Settles combinational outputs after inputs were set.
  void settle() { module_->eval(); }

  /// One rising edge. Inputs that were set before take effect; outputs are settled after.
  void tick() {
    module_->clk_i = 0;
    module_->eval();
    module_->clk_i = 1;
    module_->eval();
    ++cycles_;
  }

  void ticks(unsigned count) {
    while (count-- > 0) tick();
  }

  /// Holds reset for two cycles. It falls, so that registers whose clock stands are reset as well.
  void reset() {
    module_->rst_ni = 1;
    settle();
    module_->rst_ni = 0;
    ticks(2);
    module_->rst_ni = 1;
    settle();
  }

  /// Ticks until `done` holds; false after `limit` cycles without.
  [[nodiscard]] bool tick_until(const std::function<bool()>& done, unsigned limit) {
    for (unsigned i = 0; i < limit; ++i) {
      settle();
      if (done()) return true;
      tick();
    }
    settle();
    return done();
  }

  [[nodiscard]] std::uint64_t cycles() const { return cycles_; }

 private:
#if VM_COVERAGE
  // Into a file of its own: a test makes many simulations, one after the other.
  void write_coverage() {
    static unsigned written = 0;
    const std::string folder = std::getenv("NEARKV_RTL_COVERAGE");
    context_.coveragep()->write((folder + "/" + std::to_string(written++) + ".dat").c_str());
  }
#endif

  VerilatedContext context_;
  std::unique_ptr<Module> module_;
  std::uint64_t cycles_ = 0;
};

/// How often a side of a handshake is willing, of 8: streams are tested at each of these.
inline constexpr unsigned kPaces[] = {8, 5, 1};

/// Whether a side that is willing `pace` times of 8 is willing now.
inline bool is_willing(test::Random& random, unsigned pace) { return random() % 8 < pace; }

}  // namespace nearkv::rtl_test
