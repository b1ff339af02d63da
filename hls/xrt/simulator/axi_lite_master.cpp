#include "xrt/simulator/axi_lite_master.hpp"

namespace nearkv::hw_emu {

AxiLiteMaster::AxiLiteMaster(const Ports& ports, const std::string& prefix)
    : awvalid_(ports.find(prefix + "_awvalid")),
      awready_(ports.find(prefix + "_awready")),
      awaddr_(ports.find(prefix + "_awaddr")),
      wvalid_(ports.find(prefix + "_wvalid")),
      wready_(ports.find(prefix + "_wready")),
      wdata_(ports.find(prefix + "_wdata")),
      wstrb_(ports.find(prefix + "_wstrb")),
      bvalid_(ports.find(prefix + "_bvalid")),
      bready_(ports.find(prefix + "_bready")),
      bresp_(ports.find(prefix + "_bresp")),
      arvalid_(ports.find(prefix + "_arvalid")),
      arready_(ports.find(prefix + "_arready")),
      araddr_(ports.find(prefix + "_araddr")),
      rvalid_(ports.find(prefix + "_rvalid")),
      rready_(ports.find(prefix + "_rready")),
      rdata_(ports.find(prefix + "_rdata")),
      rresp_(ports.find(prefix + "_rresp")) {}

void AxiLiteMaster::begin_read(std::uint32_t offset) {
  state_ = State::kRead;
  address_taken_ = false;
  offset_ = offset;
}

void AxiLiteMaster::begin_write(std::uint32_t offset, std::uint32_t value) {
  state_ = State::kWrite;
  address_taken_ = data_taken_ = false;
  offset_ = offset;
  value_ = value;
}

void AxiLiteMaster::drive() {
  const bool writes = state_ == State::kWrite;
  const bool reads = state_ == State::kRead;
  awvalid_.set(writes && !address_taken_);
  awaddr_.set(offset_);
  wvalid_.set(writes && !data_taken_);
  wdata_.set(value_);
  wstrb_.set(0xf);
  bready_.set(writes && address_taken_ && data_taken_);
  arvalid_.set(reads && !address_taken_);
  araddr_.set(offset_);
  rready_.set(reads && address_taken_);
}

void AxiLiteMaster::sample() {
  if (state_ == State::kWrite) {
    const bool ends = bready_.get() != 0 && bvalid_.get() != 0;
    address_taken_ = address_taken_ || awready_.get() != 0;
    data_taken_ = data_taken_ || wready_.get() != 0;
    if (!ends) return;
    failed_ = bresp_.get() >= 2;
    state_ = State::kIdle;
  } else if (state_ == State::kRead) {
    const bool ends = rready_.get() != 0 && rvalid_.get() != 0;
    address_taken_ = address_taken_ || arready_.get() != 0;
    if (!ends) return;
    value_ = static_cast<std::uint32_t>(rdata_.get());
    failed_ = rresp_.get() >= 2;
    state_ = State::kIdle;
  }
}

}  // namespace nearkv::hw_emu
