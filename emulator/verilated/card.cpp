#include "verilated/card.hpp"

#include <algorithm>
#include <bit>
#include <thread>

#include "Vnkv_top_flat.h"

namespace nearkv::emulator {

namespace {

// Queues are looked at in turn: an enabling takes effect within so many cycles.
constexpr unsigned kSettleCycles = 20;
// Between looks at the time.
constexpr unsigned kCyclesPerLook = 512;
// With memory unused for so long, nothing is going on.
constexpr std::uint64_t kQuietCycles = 4096;

}  // namespace

VerilatedCard::VerilatedCard(std::unique_ptr<DeviceMemory> memory, MemoryTiming timing)
    : memory_(std::move(memory)),
      axi_(memory_->bytes(), timing),
      top_(std::make_unique<Vnkv_top_flat>(&context_)) {
  top_->memory_bytes_i = memory_->bytes().size();
  top_->ar_ready_i = 1;
  top_->w_ready_i = 1;
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
    top.r_id_i = beat.id;
    top.r_last_i = beat.last;
    top.r_poison_i = beat.poison;
    top.r_error_i = beat.error;
    std::ranges::copy(beat.data, top.r_data_i.data());
  }
  AxiMemory::Answer answer{};
  top.b_valid_i = axi_.next_answer(&answer);
  if (top.b_valid_i) {
    top.b_id_i = answer.id;
    top.b_error_i = answer.error;
  }
  top.ar_ready_i = axi_.takes_reads();
  top.clk_i = 0;
  top.eval();
  const bool reads = top.ar_valid_o && top.ar_ready_i;
  if (reads) {
    axi_.read({.id = top.ar_id_o, .address = top.ar_addr_o, .beats = top.ar_len_o + 1U});
  }
  const bool writes = top.w_valid_o && top.w_ready_i;
  if (writes) {
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
  posted_ += static_cast<unsigned>(std::popcount(unsigned{top.posted_o}));
}

void VerilatedCard::access(bool writes, std::uint32_t offset, std::uint64_t value) {
  top_->csr_req_i = 1;
  top_->csr_we_i = writes;
  top_->csr_addr_i = offset;
  top_->csr_wdata_i = value;
  tick();
  top_->csr_req_i = 0;
}

std::uint64_t VerilatedCard::read_csr(std::uint32_t offset) {
  const std::scoped_lock lock(mutex_);
  access(false, offset, 0);
  return top_->csr_error_o ? ~std::uint64_t{0} : top_->csr_rdata_o;
}

void VerilatedCard::write_csr(std::uint32_t offset, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
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
      for (unsigned i = 0; i < kCyclesPerLook && posted_ == reported_; ++i) tick();
      if (posted_ != reported_) {
        reported_ = posted_;
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

}  // namespace nearkv::emulator
