#include "verilated/card.hpp"

#include <algorithm>
#include <thread>

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

VerilatedCard::VerilatedCard(std::unique_ptr<DeviceMemory> memory, std::unique_ptr<Machine> machine,
                             MemoryTiming timing, const dram::Timing* dram)
    : memory_(std::move(memory)),
      stall_percent_(timing.stall_percent),
      stalls_(timing.seed),
      machine_(std::move(machine)) {
  const auto slices = static_cast<unsigned>(machine_->slices.size());
  for (unsigned i = 0; i < slices; ++i) {
    auto times =
        dram == nullptr ? nullptr : std::make_unique<DramTimes>(*dram, timing.latency_cycles);
    slices_.push_back({.axi = AxiMemory(memory_->bytes(), timing, std::move(times), {i, slices})});
  }
}

void VerilatedCard::tick() {
  for (std::size_t i = 0; i < slices_.size(); ++i) offer_memory(i);
  if (host_) offer_host_accesses();
  machine_->settle();
  if (host_) take_host_answers();
  bool is_quiet = true;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const SlicePorts& ports = machine_->slices[i];
    const bool accesses = take_accesses(i);
    if (accesses || ports.beat != nullptr || ports.answer != nullptr) is_quiet = false;
  }
  machine_->clock();
  for (SliceMemory& slice : slices_) slice.axi.advance();
  quiet_cycles_ = is_quiet ? quiet_cycles_ + 1 : 0;
  const std::uint64_t interrupts = queue_interrupts();
  if ((interrupts & ~interrupts_) != 0) note("interrupt", interrupts);
  interrupts_ = interrupts;
  if (trace_) trace_->advance();
}

void VerilatedCard::offer_memory(std::size_t slice) {
  SliceMemory& memory = slices_[slice];
  SlicePorts& ports = machine_->slices[slice];
  ports.beat = passes() && memory.axi.next_beat(&memory.beat) ? &memory.beat : nullptr;
  if (ports.beat != nullptr) note("beat", memory.beat.id);
  ports.answer = passes() && memory.axi.next_answer(&memory.answer) ? &memory.answer : nullptr;
  if (ports.answer != nullptr) note("answer", memory.answer.id);
  ports.takes_reads = memory.axi.takes_reads() && passes();
  ports.takes_writes = memory.axi.takes_writes();
  ports.takes_addresses = ports.takes_writes && passes();
  ports.takes_data = ports.takes_writes && passes();
  ports.host_takes_beats = passes();
  ports.host_takes_answers = passes();
}

bool VerilatedCard::passes() { return stall_percent_ == 0 || stalls_() % 100 >= stall_percent_; }

bool VerilatedCard::take_accesses(std::size_t slice) {
  AxiMemory& axi = slices_[slice].axi;
  const SlicePorts& ports = machine_->slices[slice];
  if (ports.reads) {
    note("read", ports.read.id, axi.device_address(ports.read.address));
    axi.read(ports.read);
  }
  if (ports.writes) {
    note("write", ports.write.id, axi.device_address(ports.write.address));
    axi.write(ports.write);
  }
  return ports.reads || ports.writes;
}

void VerilatedCard::note(const char* event, std::uint64_t first, std::uint64_t second) {
  if (trace_) trace_->note(event, first, second);
}

void VerilatedCard::offer_host_accesses() {
  const HostTraffic::Access* const read = host_->next_read();
  const HostTraffic::Access* const write = host_->next_write();
  const auto count = static_cast<unsigned>(slices_.size());
  for (SlicePorts& ports : machine_->slices) ports.host_read = ports.host_write = nullptr;
  if (read != nullptr) {
    machine_->slices[SliceMap::slice_of(read->address, count)].host_read = read;
  }
  if (write != nullptr) {
    machine_->slices[SliceMap::slice_of(write->address, count)].host_write = write;
  }
}

void VerilatedCard::take_host_answers() {
  for (const SlicePorts& ports : machine_->slices) {
    if (ports.host_read_taken) host_->read_taken();
    if (ports.host_write_taken) host_->write_taken();
    const SlicePorts::HostAnswer& beat = ports.host_beat;
    if (beat.is_valid) host_->read_answered(beat.id, beat.data, beat.failed);
    const SlicePorts::HostAnswer& settled = ports.host_settled;
    if (settled.is_valid) host_->write_answered(settled.id, settled.failed);
  }
  host_->advance();
}

void VerilatedCard::access(bool writes, std::uint32_t offset, std::uint64_t value) {
  machine_->access = {.is_valid = true, .is_write = writes, .offset = offset, .value = value};
  do {
    tick();
  } while (!machine_->access_done);
  machine_->access.is_valid = false;
}

std::uint64_t VerilatedCard::queue_interrupts() const {
  return machine_->interrupts & NKV_REG_INTERRUPT_STATUS_QUEUES_MASK;
}

std::uint64_t VerilatedCard::read_csr(std::uint32_t offset) {
  const std::scoped_lock lock(mutex_);
  access(false, offset, 0);
  // Stores to memory() do not pass the engine, so that they ring nothing; the simulated host's do.
  const bool is_deaf = offset == NKV_REG_FEATURES && !host_;
  return machine_->register_value & ~(is_deaf ? NKV_FEATURE_MEMORY_DOORBELLS : std::uint64_t{0});
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
      if (!machine_->has_interrupts) return true;
      is_quiet = quiet_cycles_ > kQuietCycles;
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    if (is_quiet) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void VerilatedCard::set_faults(MemoryFaults faults) {
  const std::scoped_lock lock(mutex_);
  for (SliceMemory& slice : slices_) {
    slice.axi.set_faults(faults);
    faults.drop_read = 0;
    faults.drop_write = faults.refuse_write = 0;
  }
}

void VerilatedCard::add_host_traffic(HostLoad load) {
  const std::scoped_lock lock(mutex_);
  host_.emplace(memory_->bytes(), load, machine_->host_ids);
}

bool VerilatedCard::trace(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  return trace_.emplace(path).is_open();
}

}  // namespace nearkv::emulator
