// The engine as a kernel of an emulated card: the Verilated adapter, joined to the Verilated engine
// as nkv_xrt_kernel joins them.
#include <verilated.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "Vnkv_xrt_adapter.h"
#include "verilated/machine.hpp"
#include "xrt/simulator/kernel_model.hpp"

namespace nearkv::hw_emu {

namespace {

using emulator::AxiMemory;
using emulator::Burst;
using emulator::Machine;
using emulator::SlicePorts;

/// The machine is made anew where the adapter resets it.
class EngineModel final : public KernelModel {
 public:
  EngineModel() : adapter_(&context_) { name_ports(); }
  ~EngineModel() override {
    machine_.reset();
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    adapter_.final();
  }

  void settle() override {
    adapter_.ap_clk = 0;
    adapter_.eval();
    if (adapter_.engine_rst_no == 0) {
      machine_.reset();
      adapter_.ar_valid_i = adapter_.w_valid_i = 0;
      return;
    }
    if (machine_ == nullptr) machine_ = emulator::make_machine(1, adapter_.memory_bytes_o);
    set_machine();
    machine_->settle();
    get_machine();
    adapter_.eval();
  }

  void clock() override {
    adapter_.ap_clk = 1;
    adapter_.eval();
    if (machine_ == nullptr) return;
    machine_->clock();
    adapter_.csr_rdata_i = machine_->register_error ? ~std::uint64_t{0} : machine_->register_value;
  }

 private:
  void set_machine() {
    machine_->access = {.is_valid = adapter_.csr_req_o != 0,
                        .is_write = adapter_.csr_we_o != 0,
                        .offset = adapter_.csr_addr_o,
                        .value = adapter_.csr_wdata_o};
    SlicePorts& slice = machine_->slices[0];
    slice.takes_reads = adapter_.ar_ready_o != 0;
    slice.takes_addresses = slice.takes_data = adapter_.w_ready_o != 0;
    slice.beat = nullptr;
    if (adapter_.r_valid_o != 0) {
      beat_ = {
          .id = adapter_.r_id_o, .poison = false, .error = adapter_.r_error_o != 0, .data = {}};
      for (std::size_t i = 0; i < beat_.data.size(); ++i) beat_.data[i] = adapter_.r_data_o[i];
      slice.beat = &beat_;
    }
    slice.answer = nullptr;
    if (adapter_.b_valid_o != 0) {
      answer_ = {.id = adapter_.b_id_o, .error = adapter_.b_error_o != 0};
      slice.answer = &answer_;
    }
  }

  void get_machine() {
    const SlicePorts& slice = machine_->slices[0];
    adapter_.ar_valid_i = slice.reads;
    if (slice.reads) {
      adapter_.ar_id_i = slice.read.id;
      adapter_.ar_addr_i = slice.read.address;
    }
    adapter_.w_valid_i = slice.writes;
    if (slice.writes) {
      adapter_.w_id_i = slice.write.id;
      adapter_.w_addr_i = slice.write.address;
      adapter_.w_strb_i = slice.write.strobes;
      for (std::size_t i = 0; i < slice.write.data.size(); ++i) {
        adapter_.w_data_i[i] = slice.write.data[i];
      }
    }
  }

  void name_ports() {
    Vnkv_xrt_adapter& top = adapter_;
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
  Vnkv_xrt_adapter adapter_;
  std::unique_ptr<Machine> machine_;
  AxiMemory::ReadBeat beat_{};
  AxiMemory::Answer answer_{};
};

}  // namespace

std::unique_ptr<KernelModel> make_kernel_model(std::string_view kernel, std::string_view) {
  if (kernel != "nkv") return nullptr;
  return std::make_unique<EngineModel>();
}

}  // namespace nearkv::hw_emu
