// nkv_xrt_control: the arguments of a run are the engine's from its start on, and no sooner.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "Vnkv_xrt_control.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Memory = std::pair<std::uint64_t, std::uint64_t>;  // Where it begins, and its bytes.

constexpr std::uint32_t kControl = 0;
constexpr std::uint32_t kBase = 0x10;
constexpr std::uint32_t kBytes = 0x1c;
constexpr unsigned kMostCycles = 200;

class XrtControlTest : public testing::Test {
 protected:
  XrtControlTest() {
    control_.reset();
    control_->bready_i = control_->rready_i = 1;
    control_->is_quiet_i = 1;
  }

  void write(std::uint32_t offset, std::uint32_t value) {
    control_->awvalid_i = 1;
    control_->awaddr_i = offset;
    control_.tick();
    control_->awvalid_i = 0;
    control_->wvalid_i = 1;
    control_->wdata_i = value;
    control_.tick();
    control_->wvalid_i = 0;
    control_.tick();
  }

  void set(const Memory& memory) {
    for (const auto& [offset, value] : {std::pair{kBase, memory.first}, {kBytes, memory.second}}) {
      write(offset, static_cast<std::uint32_t>(value));
      EXPECT_NE(engines(), memory) << "before its run";
      write(offset + 4, static_cast<std::uint32_t>(value >> 32U));
    }
  }

  /// What the engine's accesses go to.
  Memory engines() { return {control_->memory_base_o, control_->memory_bytes_o}; }

  bool runs() { return control_->engine_rst_no != 0; }

  void run(const Memory& memory) {
    set(memory);
    write(kControl, 1);
    control_.ticks(kMostCycles);
    EXPECT_TRUE(runs());
    EXPECT_EQ(engines(), memory);
  }

  Simulation<Vnkv_xrt_control> control_;
};

TEST_F(XrtControlTest, ThereIsNoMemoryBeforeTheFirstRun) {
  set({0x1'0000'2000, 1 << 20});
  EXPECT_FALSE(runs());
  EXPECT_EQ(engines(), Memory(0, 0));
}

TEST_F(XrtControlTest, WhatIsInFlightStaysInTheMemoryOfItsRun) {
  const Memory first{0x1'0000'2000, 1 << 20};
  const Memory second{0x2'0000'4000, 3 << 20};
  run(first);
  control_->is_quiet_i = 0;
  set(second);
  EXPECT_TRUE(runs()) << "arguments are no run";
  EXPECT_EQ(engines(), first);
  write(kControl, 1);
  control_.ticks(kMostCycles);
  EXPECT_FALSE(runs());
  EXPECT_EQ(engines(), first) << "memory still owes answers";
  control_->is_quiet_i = 1;
  EXPECT_TRUE(control_.tick_until([&] { return runs(); }, kMostCycles));
  EXPECT_EQ(engines(), second);
}

}  // namespace
}  // namespace nearkv::rtl_test
