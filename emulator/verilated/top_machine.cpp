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

// ---- Structs of nkv_inline_pkg: where their members begin, in bits, the last one first ----
constexpr unsigned kAddressBits = 52;
constexpr unsigned kDataBits = 8 * sizeof(Burst);
constexpr unsigned kHostIdBits = 12;
constexpr unsigned kMemoryIdBits = 13;  // is_near, and the id.

// Of an access its address comes last, of answers what is not the id.
constexpr unsigned kIdOfAccess = kAddressBits;
constexpr unsigned kPoison = kDataBits;
constexpr unsigned kError = kDataBits + 1;
constexpr unsigned kIdOfBeat = kDataBits + 2;
constexpr unsigned kIdOfAnswer = 1;
constexpr unsigned kStrobes = kDataBits + 1;

/// host_request_t and memory_request_t.
template <unsigned kIdBits>
struct Request {
  static constexpr unsigned kBReady = 0;
  static constexpr unsigned kW = kBReady + 1;
  static constexpr unsigned kWValid = kW + kStrobes + 64;
  static constexpr unsigned kAw = kWValid + 1;
  static constexpr unsigned kAwValid = kAw + kIdOfAccess + kIdBits;
  static constexpr unsigned kRReady = kAwValid + 1;
  static constexpr unsigned kAr = kRReady + 1;
  static constexpr unsigned kArValid = kAr + kIdOfAccess + kIdBits;
  static constexpr unsigned kBits = kArValid + 1;
};

/// host_answer_t and memory_answer_t.
template <unsigned kIdBits>
struct Reply {
  static constexpr unsigned kB = 0;
  static constexpr unsigned kBValid = kB + kIdOfAnswer + kIdBits;
  static constexpr unsigned kWReady = kBValid + 1;
  static constexpr unsigned kAwReady = kWReady + 1;
  static constexpr unsigned kR = kAwReady + 1;
  static constexpr unsigned kRValid = kR + kIdOfBeat + kIdBits;
  static constexpr unsigned kArReady = kRValid + 1;
  static constexpr unsigned kBits = kArReady + 1;
};

using HostRequest = Request<kHostIdBits>;
using HostReply = Reply<kHostIdBits>;
using MemoryRequest = Request<kMemoryIdBits>;
using MemoryReply = Reply<kMemoryIdBits>;

// As many as fit into a port of the model.
constexpr unsigned kSlices = 8 * sizeof(Vnkv_top::memory_i) / MemoryReply::kBits;

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
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
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
    const SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    if (slice.beat != nullptr) pending.beats.push_back(*slice.beat);
    if (slice.answer != nullptr) pending.answers.push_back(*slice.answer);
    pending.takes_address = slice.takes_addresses && pending.addresses.size() < kQueuedWrites;
    pending.takes_data = slice.takes_data && pending.data.size() < kQueuedWrites;
    const unsigned at = i * MemoryReply::kBits;
    auto& port = top_.memory_i;
    set_bits(port, at + MemoryReply::kArReady, 1, slice.takes_reads);
    set_bits(port, at + MemoryReply::kAwReady, 1, pending.takes_address);
    set_bits(port, at + MemoryReply::kWReady, 1, pending.takes_data);
    set_bits(port, at + MemoryReply::kRValid, 1, !pending.beats.empty());
    if (!pending.beats.empty()) {
      const AxiMemory::ReadBeat& beat = pending.beats.front();
      constexpr unsigned kR = MemoryReply::kR;
      set_data(port, at + kR, beat.data);
      set_bits(port, at + kR + kPoison, 1, beat.poison);
      set_bits(port, at + kR + kError, 1, beat.error);
      set_bits(port, at + kR + kIdOfBeat, kMemoryIdBits, beat.id);
    }
    set_bits(port, at + MemoryReply::kBValid, 1, !pending.answers.empty());
    if (!pending.answers.empty()) {
      const AxiMemory::Answer& answer = pending.answers.front();
      set_bits(port, at + MemoryReply::kB, 1, answer.error);
      set_bits(port, at + MemoryReply::kB + kIdOfAnswer, kMemoryIdBits, answer.id);
    }
  }

  void get_memory(unsigned i) {
    SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    const unsigned at = i * MemoryRequest::kBits;
    const auto& port = top_.memory_o;
    const auto is_set = [&](unsigned bit) { return bits(port, at + bit, 1) != 0; };
    slice.reads = slice.takes_reads && is_set(MemoryRequest::kArValid);
    if (slice.reads) slice.read = read_at(at + MemoryRequest::kAr);
    if (pending.takes_address && is_set(MemoryRequest::kAwValid)) {
      pending.addresses.push_back(read_at(at + MemoryRequest::kAw));
    }
    if (pending.takes_data && is_set(MemoryRequest::kWValid)) {
      pending.data.push_back({.strobes = bits(port, at + MemoryRequest::kW + kStrobes, 64),
                              .data = data_at(port, at + MemoryRequest::kW)});
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
    if (!pending.beats.empty() && is_set(MemoryRequest::kRReady)) pending.beats.pop_front();
    if (!pending.answers.empty() && is_set(MemoryRequest::kBReady)) pending.answers.pop_front();
  }

  [[nodiscard]] AxiMemory::Read read_at(unsigned at) const {
    const auto& port = top_.memory_o;
    return {.id = static_cast<std::uint16_t>(bits(port, at + kIdOfAccess, kMemoryIdBits)),
            .address = bits(port, at, kAddressBits)};
  }

  // ---- The host ----
  void set_host(unsigned i) {
    const SlicePorts& slice = slices[i];
    const Pending& pending = pending_[i];
    const unsigned at = i * HostRequest::kBits;
    auto& port = top_.host_i;
    set_bits(port, at + HostRequest::kArValid, 1, slice.host_read != nullptr);
    if (slice.host_read != nullptr) set_access(at + HostRequest::kAr, *slice.host_read);
    const HostTraffic::Access* const write = slice.host_write;
    const bool offers_address = write != nullptr && !pending.host_address_taken;
    const bool offers_data = write != nullptr && !pending.host_data_taken;
    set_bits(port, at + HostRequest::kAwValid, 1, offers_address);
    set_bits(port, at + HostRequest::kWValid, 1, offers_data);
    if (write != nullptr) {
      set_access(at + HostRequest::kAw, *write);
      set_data(port, at + HostRequest::kW, write->data);
      set_bits(port, at + HostRequest::kW + kStrobes, 64, ~std::uint64_t{0});
    }
    set_bits(port, at + HostRequest::kRReady, 1, slice.host_takes_beats);
    set_bits(port, at + HostRequest::kBReady, 1, slice.host_takes_answers);
  }

  void get_host(unsigned i) {
    SlicePorts& slice = slices[i];
    Pending& pending = pending_[i];
    const unsigned at = i * HostReply::kBits;
    const auto& port = top_.host_o;
    const auto is_set = [&](unsigned bit) { return bits(port, at + bit, 1) != 0; };
    const auto id_at = [&](unsigned bit) {
      return static_cast<std::uint16_t>(bits(port, at + bit, kHostIdBits));
    };
    slice.host_read_taken = slice.host_read != nullptr && is_set(HostReply::kArReady);
    if (slice.host_write != nullptr) {
      pending.host_address_taken |= is_set(HostReply::kAwReady);
      pending.host_data_taken |= is_set(HostReply::kWReady);
    }
    slice.host_write_taken = pending.host_address_taken && pending.host_data_taken;
    if (slice.host_write_taken) pending.host_address_taken = pending.host_data_taken = false;
    constexpr unsigned kR = HostReply::kR;
    slice.host_beat.is_valid = slice.host_takes_beats && is_set(HostReply::kRValid);
    if (slice.host_beat.is_valid) {
      slice.host_beat.failed = is_set(kR + kPoison) || is_set(kR + kError);
      slice.host_beat.id = id_at(kR + kIdOfBeat);
      slice.host_beat.data = data_at(port, at + kR);
    }
    slice.host_settled.is_valid = slice.host_takes_answers && is_set(HostReply::kBValid);
    if (slice.host_settled.is_valid) {
      slice.host_settled.failed = is_set(HostReply::kB);
      slice.host_settled.id = id_at(HostReply::kB + kIdOfAnswer);
    }
  }

  void set_access(unsigned at, const HostTraffic::Access& asked) {
    set_bits(top_.host_i, at, kAddressBits, asked.address);
    set_bits(top_.host_i, at + kIdOfAccess, kHostIdBits, asked.id);
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
