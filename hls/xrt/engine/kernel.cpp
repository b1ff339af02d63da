// The engine as a kernel of an emulated card: the Verilated nkv_xrt_kernel at its own pins.
#include <verilated.h>

#include <memory>
#include <string_view>

#include "Vnkv_xrt_kernel.h"
#include "xrt/simulator/kernel_model.hpp"

namespace nearkv::hw_emu {

namespace {

class EngineKernel final : public KernelModel {
 public:
  EngineKernel() : kernel_(&context_) { name_ports(); }
  ~EngineKernel() override {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    kernel_.final();
  }

  void settle() override {
    kernel_.ap_clk = 0;
    kernel_.eval();
  }

  void clock() override {
    kernel_.ap_clk = 1;
    kernel_.eval();
  }

 private:
  void name_ports() {
    Vnkv_xrt_kernel& top = kernel_;
    ports_.add("ap_rst_n", top.ap_rst_n, 1);
    ports_.add("s_axi_control_awvalid", top.s_axi_control_awvalid, 1);
    ports_.add("s_axi_control_awready", top.s_axi_control_awready, 1);
    ports_.add("s_axi_control_awaddr", top.s_axi_control_awaddr, 21);
    ports_.add("s_axi_control_wvalid", top.s_axi_control_wvalid, 1);
    ports_.add("s_axi_control_wready", top.s_axi_control_wready, 1);
    ports_.add("s_axi_control_wdata", top.s_axi_control_wdata, 32);
    ports_.add("s_axi_control_wstrb", top.s_axi_control_wstrb, 4);
    ports_.add("s_axi_control_bvalid", top.s_axi_control_bvalid, 1);
    ports_.add("s_axi_control_bready", top.s_axi_control_bready, 1);
    ports_.add("s_axi_control_bresp", top.s_axi_control_bresp, 2);
    ports_.add("s_axi_control_arvalid", top.s_axi_control_arvalid, 1);
    ports_.add("s_axi_control_arready", top.s_axi_control_arready, 1);
    ports_.add("s_axi_control_araddr", top.s_axi_control_araddr, 21);
    ports_.add("s_axi_control_rvalid", top.s_axi_control_rvalid, 1);
    ports_.add("s_axi_control_rready", top.s_axi_control_rready, 1);
    ports_.add("s_axi_control_rdata", top.s_axi_control_rdata, 32);
    ports_.add("s_axi_control_rresp", top.s_axi_control_rresp, 2);
    ports_.add("m_axi_memory_arvalid", top.m_axi_memory_arvalid, 1);
    ports_.add("m_axi_memory_arready", top.m_axi_memory_arready, 1);
    ports_.add("m_axi_memory_arid", top.m_axi_memory_arid, 13);
    ports_.add("m_axi_memory_araddr", top.m_axi_memory_araddr, 64);
    ports_.add("m_axi_memory_arlen", top.m_axi_memory_arlen, 8);
    ports_.add("m_axi_memory_arsize", top.m_axi_memory_arsize, 3);
    ports_.add("m_axi_memory_arburst", top.m_axi_memory_arburst, 2);
    ports_.add("m_axi_memory_rvalid", top.m_axi_memory_rvalid, 1);
    ports_.add("m_axi_memory_rready", top.m_axi_memory_rready, 1);
    ports_.add("m_axi_memory_rid", top.m_axi_memory_rid, 13);
    ports_.add("m_axi_memory_rdata", top.m_axi_memory_rdata, 512);
    ports_.add("m_axi_memory_rresp", top.m_axi_memory_rresp, 2);
    ports_.add("m_axi_memory_rlast", top.m_axi_memory_rlast, 1);
    ports_.add("m_axi_memory_awvalid", top.m_axi_memory_awvalid, 1);
    ports_.add("m_axi_memory_awready", top.m_axi_memory_awready, 1);
    ports_.add("m_axi_memory_awid", top.m_axi_memory_awid, 13);
    ports_.add("m_axi_memory_awaddr", top.m_axi_memory_awaddr, 64);
    ports_.add("m_axi_memory_awlen", top.m_axi_memory_awlen, 8);
    ports_.add("m_axi_memory_awsize", top.m_axi_memory_awsize, 3);
    ports_.add("m_axi_memory_awburst", top.m_axi_memory_awburst, 2);
    ports_.add("m_axi_memory_wvalid", top.m_axi_memory_wvalid, 1);
    ports_.add("m_axi_memory_wready", top.m_axi_memory_wready, 1);
    ports_.add("m_axi_memory_wdata", top.m_axi_memory_wdata, 512);
    ports_.add("m_axi_memory_wstrb", top.m_axi_memory_wstrb, 64);
    ports_.add("m_axi_memory_wlast", top.m_axi_memory_wlast, 1);
    ports_.add("m_axi_memory_bvalid", top.m_axi_memory_bvalid, 1);
    ports_.add("m_axi_memory_bready", top.m_axi_memory_bready, 1);
    ports_.add("m_axi_memory_bid", top.m_axi_memory_bid, 13);
    ports_.add("m_axi_memory_bresp", top.m_axi_memory_bresp, 2);
  }

  VerilatedContext context_;
  Vnkv_xrt_kernel kernel_;
};

}  // namespace

std::unique_ptr<KernelModel> make_kernel_model(std::string_view kernel, std::string_view) {
  if (kernel != "nkv") return nullptr;
  return std::make_unique<EngineKernel>();
}

}  // namespace nearkv::hw_emu
