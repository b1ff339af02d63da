// The Verilated afu_top, in the place of the CXL IP and of its memory controllers, of the example
// design: a controller's adapter takes a read or a write a cycle, and registers have a clock of
// their own.
#ifndef NEARKV_EMULATOR_VERILATED_AFU_MACHINE_HPP_
#define NEARKV_EMULATOR_VERILATED_AFU_MACHINE_HPP_

#include <verilated.h>

#include "Vafu_top.h"
#include "verilated/axi_slices.hpp"

namespace nearkv::emulator {

namespace pins {

inline constexpr unsigned kAgilexIdBits = 8;

/// t_to_mc_axi4 of mc_axi_if_pkg.
constexpr Request agilex_request() {
  constexpr unsigned kSizeBurstProtQos = 3 + 2 + 3 + 4;
  constexpr unsigned kUserRegionLockCache = 1 + 4 + 2 + 4;
  Members members;
  Request pins{.id_bits = kAgilexIdBits};
  members.next(kUserRegionLockCache);
  pins.ar_valid = members.next(1);
  members.next(kSizeBurstProtQos + 10);  // And the length.
  pins.ar_address = members.next(kAddressBits);
  pins.ar_id = members.next(kAgilexIdBits);
  members.next(1);  // Poison
  pins.w_valid = members.next(1);
  pins.w_last = members.next(1);
  pins.strobes = members.next(64);
  pins.data = members.next(kDataBits);
  members.next(kUserRegionLockCache);
  pins.aw_valid = members.next(1);
  members.next(kSizeBurstProtQos + 10);
  pins.aw_address = members.next(kAddressBits);
  pins.aw_id = members.next(kAgilexIdBits);
  pins.r_ready = members.next(1);
  pins.b_ready = members.next(1);
  pins.bits = members.bits();
  return pins;
}

/// t_from_mc_axi4. Of a response's two bits the upper one says that an access failed.
constexpr Answer agilex_answer() {
  Members members;
  Answer pins{.id_bits = kAgilexIdBits};
  pins.r_poison = members.next(1);
  pins.r_last = members.next(1);
  pins.r_valid = members.next(1);
  pins.r_error = members.next(2) + 1;
  pins.r_data = members.next(kDataBits);
  pins.r_id = members.next(kAgilexIdBits);
  members.next(1);  // User
  pins.b_valid = members.next(1);
  pins.b_error = members.next(2) + 1;
  pins.b_id = members.next(kAgilexIdBits);
  pins.ar_ready = members.next(1);
  pins.w_ready = members.next(1);
  pins.aw_ready = members.next(1);
  pins.bits = members.bits();
  return pins;
}

}  // namespace pins

inline constexpr AxiPins kAfuPins = {pins::agilex_request(), pins::agilex_answer(),
                                     pins::agilex_request(), pins::agilex_answer()};

class AfuMachine final : public Machine {
 public:
  /// As the stub of the example's package has them, and as the model was Verilated.
  static constexpr unsigned kSlices = 2;
  static constexpr std::uint64_t kMemoryBytes = NEARKV_AFU_MEMORY_BYTES;

  AfuMachine() : Machine(kSlices), top_(&context_), axi_(kSlices) {
    has_interrupts = false;
    host_ids = 1U << pins::kAgilexIdBits;
    reset();
  }
  ~AfuMachine() override {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    top_.final();
  }

  void settle() override {
    // The IP polls registers by Avalon-MM, and asks for no other until it has the answer.
    const bool asks = access.is_valid && !is_taken_;
    top_.csr_avmm_read = asks && !access.is_write;
    top_.csr_avmm_write = asks && access.is_write;
    top_.csr_avmm_address = access.offset;
    top_.csr_avmm_writedata = access.value;
    const AxiPorts ports{top_.cxlip2iafu_to_mc_axi4, top_.iafu2cxlip_from_mc_axi4,
                         top_.iafu2mc_to_mc_axi4, top_.mc2iafu_from_mc_axi4};
    axi_.set(slices, ports);
    top_.afu_clk = 0;
    top_.eval();
    axi_.get(&slices, ports);
    for (unsigned i = 0; i < kSlices; ++i) {
      if (offers_both(i)) slices[i].reads = false;
    }
  }

  void clock() override {
    access_done = false;
    top_.afu_clk = 1;
    top_.eval();
    // 125 MHz beside 400.
    csr_time_ += 125;
    if (csr_time_ < 400) return;
    csr_time_ -= 400;
    clock_registers();
  }

 private:
  /// Of a read and a write that are offered in one cycle, the controller's adapter loses the read.
  [[nodiscard]] bool offers_both(unsigned slice) const {
    constexpr const pins::Request& kPin = kAfuPins.memory_request;
    const auto is_set = [&](unsigned bit) {
      return pins::bits(top_.iafu2mc_to_mc_axi4, slice * kPin.bits + bit, 1) != 0;
    };
    return is_set(kPin.ar_valid) && is_set(kPin.aw_valid);
  }

  void clock_registers() {
    if (is_taken_ && top_.csr_avmm_readdatavalid != 0) {
      register_value = top_.csr_avmm_readdata;
      is_taken_ = false;
      access_done = true;
    }
    const bool takes =
        (top_.csr_avmm_read | top_.csr_avmm_write) != 0 && top_.csr_avmm_waitrequest == 0;
    if (takes && top_.csr_avmm_write != 0) access_done = true;
    if (takes && top_.csr_avmm_read != 0) is_taken_ = true;
    top_.csr_avmm_clk = 1;
    top_.eval();
    top_.csr_avmm_clk = 0;
    top_.eval();
  }

  // Reset falls, and so does that of registers.
  void reset() {
    top_.csr_avmm_byteenable = 0xFF;
    top_.afu_rstn = top_.csr_avmm_rstn = 1;
    top_.eval();
    top_.afu_rstn = top_.csr_avmm_rstn = 0;
    for (unsigned i = 0; i < 8; ++i) cycle();
    top_.afu_rstn = top_.csr_avmm_rstn = 1;
    for (unsigned i = 0; i < 8; ++i) cycle();
  }

  VerilatedContext context_;
  Vafu_top top_;
  AxiSlices<kAfuPins> axi_;
  unsigned csr_time_ = 0;
  bool is_taken_ = false;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_AFU_MACHINE_HPP_
