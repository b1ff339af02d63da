// A Verilated module as a kernel.
#ifndef NEARKV_HLS_XRT_SIMULATOR_VERILATED_MODEL_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_VERILATED_MODEL_HPP_

#include <verilated.h>

#include <cstdlib>
#include <string>

#include "xrt/simulator/kernel_model.hpp"
#if VM_TRACE_FST
#include <verilated_fst_c.h>
#endif

namespace nearkv::hw_emu {

/// `Top` is Verilator's class. With waves compiled in, they go to $NEARKV_XRT_WAVES/INSTANCE.fst,
/// if that variable names a folder.
template <typename Top>
class VerilatedModel final : public KernelModel {
 public:
  /// `name_ports` adds each port of the module; `clock` is the name of its clock.
  template <typename NamePorts>
  VerilatedModel(const std::string& instance, const std::string& clock, NamePorts name_ports)
      : top_(&context_, instance.c_str()) {
    name_ports(top_, ports_);
    clock_ = ports_.find(clock);
#if VM_TRACE_FST
    if (const char* const folder = std::getenv("NEARKV_XRT_WAVES"); folder != nullptr) {
      context_.traceEverOn(true);
      top_.trace(&waves_, 99);
      waves_.open((std::string(folder) + "/" + instance + ".fst").c_str());
    }
#endif
  }
  ~VerilatedModel() override {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    top_.final();
#if VM_TRACE_FST
    waves_.close();
#endif
  }

  void settle() override { eval(0); }
  void clock() override { eval(1); }

 private:
  void eval(std::uint64_t level) {
    clock_.set(level);
    top_.eval();
    context_.timeInc(1);
#if VM_TRACE_FST
    if (waves_.isOpen()) waves_.dump(static_cast<std::uint64_t>(context_.time()));
#endif
  }

  VerilatedContext context_;
  Top top_;
  Pin clock_;
#if VM_TRACE_FST
  VerilatedFstC waves_;
#endif
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_VERILATED_MODEL_HPP_
