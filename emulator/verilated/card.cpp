#include "verilated/card.hpp"

#include <algorithm>
#include <thread>

#include "Vnkv_top_flat.h"
#include "nkv_abi.h"
#include "verilated/dram_times.hpp"

namespace nearkv::emulator {

namespace {

// Queues are looked at in turn: an enabling takes effect within so many cycles.
constexpr unsigned kSettleCycles = 20;
// Between looks at the time.
constexpr unsigned kCyclesPerLook = 512;
// With memory unused for so long, nothing is going on.
constexpr std::uint64_t kQuietCycles = 4096;

}  // namespace

VerilatedCard::VerilatedCard(std::unique_ptr<DeviceMemory> memory, MemoryTiming timing,
                             const dram::Timing* dram)
    : memory_(std::move(memory)),
      axi_(memory_->bytes(), timing,
           dram == nullptr ? nullptr : std::make_unique<DramTimes>(*dram, timing.latency_cycles)),
      top_(std::make_unique<Vnkv_top_flat>(&context_)) {
  top_->memory_bytes_i = memory_->bytes().size();
  top_->host_r_ready_i = 1;
  top_->host_b_ready_i = 1;
  top_->host_w_strb_i = ~std::uint64_t{0};
  // Reset falls, so that registers whose clock stands are reset as well.
  top_->rst_ni = 1;
  top_->eval();
  top_->rst_ni = 0;
  tick();
  tick();
  top_->rst_ni = 1;
  tick();
}

VerilatedCard::~VerilatedCard() { top_->final(); }

void VerilatedCard::tick() {
  Vnkv_top_flat& top = *top_;
  AxiMemory::ReadBeat beat{};
  top.r_valid_i = axi_.next_beat(&beat);
  if (top.r_valid_i) {
    note("beat", beat.id);
    top.r_id_i = beat.id;
    top.r_poison_i = beat.poison;
    top.r_error_i = beat.error;
    std::ranges::copy(beat.data, top.r_data_i.data());
  }
  AxiMemory::Answer answer{};
  top.b_valid_i = axi_.next_answer(&answer);
  if (top.b_valid_i) {
    note("answer", answer.id);
    top.b_id_i = answer.id;
    top.b_error_i = answer.error;
  }
  top.ar_ready_i = axi_.takes_reads();
  top.w_ready_i = axi_.takes_writes();
  if (host_) offer_host_accesses();
  top.clk_i = 0;
  top.eval();
  if (host_) take_host_answers();
  const bool reads = top.ar_valid_o && top.ar_ready_i;
  if (reads) {
    note("read", top.ar_id_o, top.ar_addr_o);
    axi_.read({.id = top.ar_id_o, .address = top.ar_addr_o});
  }
  const bool writes = top.w_valid_o && top.w_ready_i;
  if (writes) {
    note("write", top.w_id_o, top.w_addr_o);
    AxiMemory::Write write{
        .id = top.w_id_o, .address = top.w_addr_o, .strobes = top.w_strb_o, .data = {}};
    std::copy_n(top.w_data_o.data(), write.data.size(), write.data.begin());
    axi_.write(write);
  }
  top.clk_i = 1;
  top.eval();
  axi_.advance();
  const bool is_quiet = !reads && !writes && !top.r_valid_i && !top.b_valid_i;
  quiet_cycles_ = is_quiet ? quiet_cycles_ + 1 : 0;
  const std::uint64_t interrupts = queue_interrupts();
  if ((interrupts & ~interrupts_) != 0) note("interrupt", interrupts);
  interrupts_ = interrupts;
  if (trace_) trace_->advance();
}

void VerilatedCard::note(const char* event, std::uint64_t first, std::uint64_t second) {
  if (trace_) trace_->note(event, first, second);
}

void VerilatedCard::offer_host_accesses() {
  Vnkv_top_flat& top = *top_;
  const HostTraffic::Access* const read = host_->next_read();
  top.host_ar_valid_i = read != nullptr;
  if (read != nullptr) {
    top.host_ar_id_i = read->id;
    top.host_ar_addr_i = read->address;
  }
  const HostTraffic::Access* const write = host_->next_write();
  top.host_w_valid_i = write != nullptr;
  if (write != nullptr) {
    top.host_w_id_i = write->id;
    top.host_w_addr_i = write->address;
    std::ranges::copy(write->data, top.host_w_data_i.data());
  }
}

void VerilatedCard::take_host_answers() {
  const Vnkv_top_flat& top = *top_;
  if (top.host_ar_valid_i && top.host_ar_ready_o) host_->read_taken();
  if (top.host_w_valid_i && top.host_w_ready_o) host_->write_taken();
  if (top.host_r_valid_o) {
    Burst data;
    std::copy_n(top.host_r_data_o.data(), data.size(), data.begin());
    host_->read_answered(top.host_r_id_o, data, top.host_r_error_o || top.host_r_poison_o);
  }
  if (top.host_b_valid_o) host_->write_answered(top.host_b_id_o, top.host_b_error_o);
  host_->advance();
}

void VerilatedCard::access(bool writes, std::uint32_t offset, std::uint64_t value) {
  top_->csr_req_i = 1;
  top_->csr_we_i = writes;
  top_->csr_addr_i = offset;
  top_->csr_wdata_i = value;
  tick();
  top_->csr_req_i = 0;
}

std::uint64_t VerilatedCard::queue_interrupts() const {
  return top_->irq_o & NKV_REG_INTERRUPT_STATUS_QUEUES_MASK;
}

std::uint64_t VerilatedCard::read_csr(std::uint32_t offset) {
  const std::scoped_lock lock(mutex_);
  access(false, offset, 0);
  return top_->csr_error_o ? ~std::uint64_t{0} : top_->csr_rdata_o;
}

void VerilatedCard::write_csr(std::uint32_t offset, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  note("csr", offset, value);
  access(true, offset, value);
  for (unsigned i = 0; i < kSettleCycles; ++i) tick();
  quiet_cycles_ = 0;
}

bool VerilatedCard::wait(std::chrono::nanoseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    bool is_quiet = false;
    {
      const std::scoped_lock lock(mutex_);
      for (unsigned i = 0; i < kCyclesPerLook && queue_interrupts() == 0; ++i) tick();
      if (const std::uint64_t interrupts = queue_interrupts(); interrupts != 0) {
        access(true, NKV_REG_INTERRUPT_STATUS, interrupts);
        return true;
      }
      is_quiet = quiet_cycles_ > kQuietCycles;
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    if (is_quiet) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void VerilatedCard::set_faults(MemoryFaults faults) {
  const std::scoped_lock lock(mutex_);
  axi_.set_faults(std::move(faults));
}

void VerilatedCard::add_host_traffic(HostLoad load) {
  const std::scoped_lock lock(mutex_);
  host_.emplace(memory_->bytes(), load);
}

bool VerilatedCard::trace(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  return trace_.emplace(path).is_open();
}

}  // namespace nearkv::emulator
