// The Verilated nkv_top at its own pins.
#ifndef NEARKV_EMULATOR_VERILATED_TOP_MACHINE_HPP_
#define NEARKV_EMULATOR_VERILATED_TOP_MACHINE_HPP_

#include <verilated.h>
#if VM_COVERAGE
#include <unistd.h>
#include <verilated_cov.h>
#endif
#if VM_TRACE
#include <verilated_vcd_c.h>
#endif

#include <cstdlib>
#include <string>

#include "verilated/axi_slices.hpp"

namespace nearkv::emulator {

/// Structs of nkv_inline_pkg: ids of the host, and those with a bit more that says is_near.
inline constexpr AxiPins kTopPins = {pins::inline_request(12), pins::inline_answer(12),
                                     pins::inline_request(13), pins::inline_answer(13)};

/// Top: a Verilated nkv_top, of as many slices as fit into a port of it.
template <typename Top>
class TopMachine final : public Machine {
 public:
  static constexpr unsigned kSlices = 8 * sizeof(Top::memory_i) / kTopPins.memory_answer.bits;

  explicit TopMachine(std::uint64_t memory_bytes)
      : Machine(kSlices), top_(&context_), axi_(kSlices) {
#if VM_TRACE
    if (const char* const path = std::getenv("NEARKV_RTL_WAVE"); path != nullptr) {
      context_.traceEverOn(true);
      top_.trace(&wave_, 99);
      wave_.open(path);
    }
#endif
    top_.memory_bytes_i = memory_bytes;
    reset();
  }
  ~TopMachine() override {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
#if VM_COVERAGE
    write_coverage();  // While the engines are there.
#endif
    top_.final();
#if VM_TRACE
    wave_.close();
#endif
  }

  void settle() override {
    top_.csr_req_i = access.is_valid;
    top_.csr_we_i = access.is_write;
    top_.csr_addr_i = access.offset;
    top_.csr_wdata_i = access.value;
    const AxiPorts ports{top_.host_i, top_.host_o, top_.memory_o, top_.memory_i};
    axi_.set(slices, ports);
    eval(0);
    axi_.get(&slices, ports);
  }

  void clock() override {
    eval(1);
    access_done = access.is_valid;
    register_value = top_.csr_error_o != 0 ? ~std::uint64_t{0} : top_.csr_rdata_o;
    interrupts = top_.irq_o;
  }

 private:
  void eval(std::uint8_t clock) {
    top_.clk_i = clock;
    top_.eval();
#if VM_TRACE
    if (wave_.isOpen()) wave_.dump(context_.time());
    context_.timeInc(1);
#endif
  }

  // Reset falls, so that registers whose clock stands are reset as well.
  void reset() {
    top_.rst_ni = 1;
    top_.eval();
    top_.rst_ni = 0;
    cycle();
    cycle();
    top_.rst_ni = 1;
    cycle();
  }

#if VM_COVERAGE
  // Into a file of its own: a process makes many machines, and several processes count at once.
  void write_coverage() {
    static unsigned written = 0;
    const char* const folder = std::getenv("NEARKV_RTL_COVERAGE");
    if (folder == nullptr) return;
    const std::string name = std::to_string(::getpid()) + "." + std::to_string(written++);
    context_.coveragep()->write((std::string(folder) + "/" + name + ".dat").c_str());
  }
#endif

  VerilatedContext context_;
  Top top_;
#if VM_TRACE
  VerilatedVcdC wave_;
#endif
  AxiSlices<kTopPins> axi_;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_TOP_MACHINE_HPP_
