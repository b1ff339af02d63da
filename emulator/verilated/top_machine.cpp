// nkv_top as one Verilated model, at its own pins: structs of all slices side by side in one port,
// and each channel with a handshake of its own, so that an address and its data go at different
// times.
#include <verilated.h>
#if VM_TRACE
#include <verilated_vcd_c.h>

#include <cstdlib>
#endif

#include <algorithm>
#include <array>
#include <deque>
#include <type_traits>
#include <utility>

#include "Vnkv_top.h"
#include "verilated/machine.hpp"

namespace nearkv::emulator {

namespace {

// Addresses that wait for their data at a slice's memory, and data for their addresses.
constexpr std::size_t kQueuedWrites = 4;

// ---- Structs of nkv_inline_pkg, their last member first, in bits ----
constexpr unsigned kAddressBits = 52;
constexpr unsigned kHostIdBits = 12;
constexpr unsigned kMemoryIdBits = 13;  // is_near, and the id.
constexpr unsigned kDataBits = 8 * sizeof(Burst);
constexpr unsigned kAccessBits = kAddressBits + kHostIdBits;
constexpr unsigned kMemoryAccessBits = kAddressBits + kMemoryIdBits;
constexpr unsigned kPoisonAt = kDataBits;
constexpr unsigned kStrobesAt = kDataBits + 1;
constexpr unsigned kWriteDataBits = kStrobesAt + 64;
constexpr unsigned kErrorAt = kDataBits + 1;
constexpr unsigned kReadIdAt = kDataBits + 2;
constexpr unsigned kAnswerIdAt = 1;  // Behind the error.
constexpr unsigned kMemoryReadBits = kReadIdAt + kMemoryIdBits;

// As many as fit into a port of the model.
constexpr unsigned kSlices = 8 * sizeof(Vnkv_top::memory_r_i) / kMemoryReadBits;

/// A port's 32-bit words: Verilator has an integer where it has no more than 64 bits.
template <typename Port>
std::uint64_t word(const Port& port, unsigned index) {
  if (index >= (sizeof(Port) + 3) / 4) return 0;
  if constexpr (std::is_integral_v<Port>) {
    return std::uint64_t{port} >> 32 * index & 0xffffffff;
  } else {
    return port.at(index);
  }
}

/// `count` bits of a port from bit `at` on, at most 64.
template <typename Port>
std::uint64_t bits(const Port& port, unsigned at, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned done = 0; done < count;) {
    const unsigned shift = (at + done) % 32;
    const unsigned step = std::min(32 - shift, count - done);
    const std::uint64_t mask = (std::uint64_t{1} << step) - 1;
    value |= (word(port, (at + done) / 32) >> shift & mask) << done;
    done += step;
  }
  return value;
}

template <typename Port>
void set_bits(Port& port, unsigned at, unsigned count, std::uint64_t value) {
  for (unsigned done = 0; done < count;) {
    const unsigned index = (at + done) / 32;
    const unsigned shift = (at + done) % 32;
    const unsigned step = std::min(32 - shift, count - done);
    const std::uint64_t mask = ((std::uint64_t{1} << step) - 1) << shift;
    const std::uint64_t changed = (word(port, index) & ~mask) | (value >> done << shift & mask);
    if constexpr (std::is_integral_v<Port>) {
      const std::uint64_t others = port & ~(std::uint64_t{0xffffffff} << 32 * index);
      port = static_cast<Port>(others | changed << 32 * index);
    } else {
      port.at(index) = static_cast<std::uint32_t>(changed);
    }
    done += step;
  }
}

template <typename Port>
Burst data_at(const Port& port, unsigned at) {
  Burst data;
  for (unsigned i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::uint32_t>(bits(port, at + 32 * i, 32));
  }
  return data;
}

template <typename Port>
void set_data(Port& port, unsigned at, const Burst& data) {
  for (unsigned i = 0; i < data.size(); ++i) set_bits(port, at + 32 * i, 32, data[i]);
}

class TopMachine final : public Machine {
 public:
  explicit TopMachine(std::uint64_t memory_bytes) : Machine(kSlices), top_(&context_) {
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
    for (unsigned i = 0; i < kSlices; ++i) {
      set_memory(i);
      set_host(i);
    }
    eval(0);
    for (unsigned i = 0; i < kSlices; ++i) {
      get_memory(i);
      get_host(i);
    }
  }

  void clock() override {
    eval(1);
    register_value = top_.csr_rdata_o;
    register_error = top_.csr_error_o != 0;
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

  void cycle() {
    settle();
    clock();
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

  // ---- Memory ----
  void set_memory(unsigned i) {
    SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    if (slice.beat != nullptr) pending.beats.push_back(*slice.beat);
    if (slice.answer != nullptr) pending.answers.push_back(*slice.answer);
    pending.takes_address = slice.takes_addresses && pending.addresses.size() < kQueuedWrites;
    pending.takes_data = slice.takes_data && pending.data.size() < kQueuedWrites;
    set_bits(top_.memory_ar_ready_i, i, 1, slice.takes_reads);
    set_bits(top_.memory_aw_ready_i, i, 1, pending.takes_address);
    set_bits(top_.memory_w_ready_i, i, 1, pending.takes_data);
    set_bits(top_.memory_r_valid_i, i, 1, !pending.beats.empty());
    if (!pending.beats.empty()) {
      const AxiMemory::ReadBeat& beat = pending.beats.front();
      const unsigned at = i * kMemoryReadBits;
      set_data(top_.memory_r_i, at, beat.data);
      set_bits(top_.memory_r_i, at + kPoisonAt, 1, beat.poison);
      set_bits(top_.memory_r_i, at + kErrorAt, 1, beat.error);
      set_bits(top_.memory_r_i, at + kReadIdAt, kMemoryIdBits, beat.id);
    }
    set_bits(top_.memory_b_valid_i, i, 1, !pending.answers.empty());
    if (!pending.answers.empty()) {
      const AxiMemory::Answer& answer = pending.answers.front();
      const unsigned at = i * (kAnswerIdAt + kMemoryIdBits);
      set_bits(top_.memory_b_i, at, 1, answer.error);
      set_bits(top_.memory_b_i, at + kAnswerIdAt, kMemoryIdBits, answer.id);
    }
  }

  void get_memory(unsigned i) {
    SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    slice.reads = slice.takes_reads && bits(top_.memory_ar_valid_o, i, 1) != 0;
    if (slice.reads) slice.read = read_at(top_.memory_ar_o, i);
    if (pending.takes_address && bits(top_.memory_aw_valid_o, i, 1) != 0) {
      pending.addresses.push_back(read_at(top_.memory_aw_o, i));
    }
    if (pending.takes_data && bits(top_.memory_w_valid_o, i, 1) != 0) {
      const unsigned at = i * kWriteDataBits;
      pending.data.push_back({.strobes = bits(top_.memory_w_o, at + kStrobesAt, 64),
                              .data = data_at(top_.memory_w_o, at)});
    }
    slice.writes = slice.takes_writes && !pending.addresses.empty() && !pending.data.empty();
    if (slice.writes) {
      const AxiMemory::Read& to = pending.addresses.front();
      const WriteData& what = pending.data.front();
      slice.write = {
          .id = to.id, .address = to.address, .strobes = what.strobes, .data = what.data};
      pending.addresses.pop_front();
      pending.data.pop_front();
    }
    if (!pending.beats.empty() && bits(top_.memory_r_ready_o, i, 1) != 0) {
      pending.beats.pop_front();
    }
    if (!pending.answers.empty() && bits(top_.memory_b_ready_o, i, 1) != 0) {
      pending.answers.pop_front();
    }
  }

  template <typename Port>
  static AxiMemory::Read read_at(const Port& port, unsigned slice) {
    const unsigned at = slice * kMemoryAccessBits;
    return {.id = static_cast<std::uint16_t>(bits(port, at + kAddressBits, kMemoryIdBits)),
            .address = bits(port, at, kAddressBits)};
  }

  // ---- The host ----
  void set_host(unsigned i) {
    const SlicePorts& slice = slices[i];
    const Pending& pending = pending_[i];
    set_bits(top_.host_ar_valid_i, i, 1, slice.host_read != nullptr);
    if (slice.host_read != nullptr) set_access(top_.host_ar_i, i, *slice.host_read);
    const HostTraffic::Access* const write = slice.host_write;
    set_bits(top_.host_aw_valid_i, i, 1, write != nullptr && !pending.host_address_taken);
    set_bits(top_.host_w_valid_i, i, 1, write != nullptr && !pending.host_data_taken);
    if (write != nullptr) {
      set_access(top_.host_aw_i, i, *write);
      const unsigned at = i * kWriteDataBits;
      set_data(top_.host_w_i, at, write->data);
      set_bits(top_.host_w_i, at + kStrobesAt, 64, ~std::uint64_t{0});
    }
    set_bits(top_.host_r_ready_i, i, 1, slice.host_takes_beats);
    set_bits(top_.host_b_ready_i, i, 1, slice.host_takes_answers);
  }

  void get_host(unsigned i) {
    SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    slice.host_read_taken = slice.host_read != nullptr && bits(top_.host_ar_ready_o, i, 1) != 0;
    if (slice.host_write != nullptr) {
      pending.host_address_taken |= bits(top_.host_aw_ready_o, i, 1) != 0;
      pending.host_data_taken |= bits(top_.host_w_ready_o, i, 1) != 0;
    }
    slice.host_write_taken = pending.host_address_taken && pending.host_data_taken;
    if (slice.host_write_taken) pending.host_address_taken = pending.host_data_taken = false;
    slice.host_beat.is_valid = slice.host_takes_beats && bits(top_.host_r_valid_o, i, 1) != 0;
    if (slice.host_beat.is_valid) {
      const unsigned at = i * (kReadIdAt + kHostIdBits);
      slice.host_beat.failed = bits(top_.host_r_o, at + kPoisonAt, 2) != 0;  // Or the error.
      slice.host_beat.id =
          static_cast<std::uint16_t>(bits(top_.host_r_o, at + kReadIdAt, kHostIdBits));
      slice.host_beat.data = data_at(top_.host_r_o, at);
    }
    slice.host_settled.is_valid = slice.host_takes_answers && bits(top_.host_b_valid_o, i, 1) != 0;
    if (slice.host_settled.is_valid) {
      const unsigned at = i * (kAnswerIdAt + kHostIdBits);
      slice.host_settled.failed = bits(top_.host_b_o, at, 1) != 0;
      slice.host_settled.id =
          static_cast<std::uint16_t>(bits(top_.host_b_o, at + kAnswerIdAt, kHostIdBits));
    }
  }

  template <typename Port>
  static void set_access(Port& port, unsigned slice, const HostTraffic::Access& access) {
    const unsigned at = slice * kAccessBits;
    set_bits(port, at, kAddressBits, access.address);
    set_bits(port, at + kAddressBits, kHostIdBits, access.id);
  }

  struct WriteData {
    std::uint64_t strobes;
    Burst data;
  };
  /// What stands at a slice's pins, or waits for its other half.
  struct Pending {
    std::deque<AxiMemory::ReadBeat> beats;
    std::deque<AxiMemory::Answer> answers;
    std::deque<AxiMemory::Read> addresses;
    std::deque<WriteData> data;
    bool takes_address = false;
    bool takes_data = false;
    bool host_address_taken = false;
    bool host_data_taken = false;
  };

  VerilatedContext context_;
  Vnkv_top top_;
#if VM_TRACE
  VerilatedVcdC wave_;
#endif
  std::array<Pending, kSlices> pending_;
};

}  // namespace

std::span<const unsigned> machine_slices() { return {&kSlices, 1}; }

std::unique_ptr<Machine> make_machine(unsigned /*slices*/, std::uint64_t memory_bytes) {
  return std::make_unique<TopMachine>(memory_bytes);
}

}  // namespace nearkv::emulator
