#include "management/processor.hpp"

#include <Vnkv_management.h>
#include <verilated.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "management/flash.hpp"

namespace nearkv::emulator {

bool carry_flash(Flash* flash, Operation* operation) {
  bool is_done = false;
  switch (operation->kind) {
    case NKV_FIRMWARE_OPERATION_READ_FLASH:
      is_done = flash != nullptr && flash->read(operation->at, operation->line);
      break;
    case NKV_FIRMWARE_OPERATION_WRITE_FLASH:
      is_done = flash != nullptr && flash->write(operation->at, operation->line);
      break;
    case NKV_FIRMWARE_OPERATION_ERASE_FLASH:
      is_done = flash != nullptr && flash->erase(operation->at);
      break;
    default:
      return false;
  }
  operation->has_failed = !is_done;
  return true;
}

ManagementProcessor::ManagementProcessor(std::span<const std::byte> rom, const Identity& identity,
                                         Carry carry)
    : context_(std::make_unique<VerilatedContext>()),
      rtl_(std::make_unique<Vnkv_management>(context_.get())),
      carry_(std::move(carry)) {
  rtl_->memory_bytes_i = identity.memory_bytes;
  rtl_->serial_i = identity.serial;
  rtl_->dynamic_bytes_i = identity.dynamic_bytes;
  set_temperature(identity.temperature_celsius);
  rtl_->rst_ni = 0;
  rtl_->hold_i = 1;
  cycle();
  rtl_->rst_ni = 1;
  load(rom);
  rtl_->hold_i = 0;
}

ManagementProcessor::~ManagementProcessor() { rtl_->final(); }

void ManagementProcessor::load(std::span<const std::byte> rom) {
  rtl_->load_valid_i = 1;
  for (std::uint32_t at = 0; at < NKV_PROCESSOR_ROM_BYTES; at += 4) {
    std::uint32_t word = 0;
    if (at < rom.size()) {
      const auto rest = rom.subspan(at);
      std::memcpy(&word, rest.data(), std::min(rest.size(), sizeof(word)));
    }
    rtl_->load_at_i = NKV_PROCESSOR_ROM_AT - NKV_PROCESSOR_RAM_AT + at;
    rtl_->load_data_i = word;
    cycle();
  }
  rtl_->load_valid_i = 0;
}

void ManagementProcessor::cycle() {
  rtl_->clk_i = 0;
  rtl_->eval();
  carry();
  rtl_->error_valid_i = errors_.empty() ? 0 : 1;
  if (!errors_.empty()) {
    rtl_->error_at_i = errors_.front().address;
    rtl_->error_corrected_i = errors_.front().is_corrected ? 1 : 0;
  }
  rtl_->eval();
  const bool takes_error = rtl_->error_valid_i != 0 && rtl_->error_ready_o != 0;
  rtl_->clk_i = 1;
  rtl_->eval();
  if (takes_error) errors_.pop_front();
  interrupts_ += rtl_->interrupt_o;
  ++cycles_;
}

void ManagementProcessor::carry() {
  rtl_->operation_done_i = 0;
  if (rtl_->operation_valid_o == 0) {
    is_asking_ = false;
    return;
  }
  if (!is_asking_) ++operations_;
  is_asking_ = true;
  Operation operation{.kind = static_cast<nkv_firmware_operation>(rtl_->operation_o),
                      .at = rtl_->operation_at_o,
                      .bytes = rtl_->operation_bytes_o};
  operation.number = operations_;
  std::memcpy(operation.line.data(), rtl_->operation_line_o.data(), operation.line.size());
  if (!carry_(&operation)) return;
  rtl_->operation_done_i = 1;
  rtl_->operation_failed_i = operation.has_failed ? 1 : 0;
  rtl_->operation_at_i = operation.at;
  std::memcpy(rtl_->operation_line_i.data(), operation.line.data(), operation.line.size());
}

void ManagementProcessor::run(std::uint64_t cycles) {
  for (const std::uint64_t end = cycles_ + cycles; cycles_ < end;) cycle();
}

std::uint64_t ManagementProcessor::read(std::uint32_t offset) {
  rtl_->req_i = 1;
  rtl_->we_i = 0;
  rtl_->addr_i = static_cast<std::uint16_t>(offset >> 3);
  cycle();
  rtl_->req_i = 0;
  return rtl_->rdata_o;
}

void ManagementProcessor::write(std::uint32_t offset, std::uint64_t value, std::uint8_t strobes) {
  rtl_->req_i = 1;
  rtl_->we_i = 1;
  rtl_->addr_i = static_cast<std::uint16_t>(offset >> 3);
  rtl_->wdata_i = value;
  rtl_->strobes_i = strobes;
  cycle();
  rtl_->req_i = 0;
  rtl_->we_i = 0;
}

void ManagementProcessor::report_error(std::uint64_t address, bool is_corrected) {
  errors_.push_back({address, is_corrected});
}

void ManagementProcessor::set_temperature(std::int16_t celsius) {
  rtl_->temperature_i = static_cast<std::uint16_t>(celsius);
}

bool ManagementProcessor::is_busy() const { return rtl_->busy_o != 0 || !errors_.empty(); }

bool ManagementProcessor::has_failed() const { return rtl_->failed_o != 0; }

}  // namespace nearkv::emulator
