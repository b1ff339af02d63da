// A top's AXI ports as bits: where members of their packed structs are, and how they are read and
// set.
#ifndef NEARKV_EMULATOR_VERILATED_TOP_PINS_HPP_
#define NEARKV_EMULATOR_VERILATED_TOP_PINS_HPP_

#include <algorithm>
#include <cstdint>

#include "verilated/axi_memory.hpp"

namespace nearkv::emulator::pins {

constexpr unsigned kAddressBits = 52;
constexpr unsigned kDataBits = 8 * sizeof(Burst);

/// What asks, one slice's: the host's accesses or those to memory. Each is the member's first bit.
struct Request {
  unsigned id_bits = 0;
  unsigned ar_valid = 0, ar_id = 0, ar_address = 0, r_ready = 0;
  unsigned aw_valid = 0, aw_id = 0, aw_address = 0, b_ready = 0;
  unsigned w_valid = 0, w_last = 0, strobes = 0, data = 0;
  unsigned bits = 0;  ///< Of all members.
};

/// What answers. `r_error` and `b_error` are set where an access failed; `r_last` is set always.
struct Answer {
  unsigned id_bits = 0;
  unsigned ar_ready = 0, r_valid = 0, r_id = 0, r_error = 0, r_poison = 0, r_last = 0, r_data = 0;
  unsigned aw_ready = 0, w_ready = 0, b_valid = 0, b_id = 0, b_error = 0;
  unsigned bits = 0;
};

inline constexpr unsigned kNoPin = ~0U;

/// Gives members their bits, the struct's last one first.
class Members {
 public:
  constexpr unsigned next(unsigned bits) {
    const unsigned first = bits_;
    bits_ += bits;
    return first;
  }
  [[nodiscard]] constexpr unsigned bits() const { return bits_; }

 private:
  unsigned bits_ = 0;
};

/// host_request_t and memory_request_t of nkv_inline_pkg.
constexpr Request inline_request(unsigned id_bits) {
  Members members;
  Request pins{.id_bits = id_bits};
  pins.b_ready = members.next(1);
  pins.data = members.next(kDataBits);
  members.next(1);  // Poison
  pins.strobes = members.next(64);
  pins.w_valid = members.next(1);
  pins.aw_address = members.next(kAddressBits);
  pins.aw_id = members.next(id_bits);
  pins.aw_valid = members.next(1);
  pins.r_ready = members.next(1);
  pins.ar_address = members.next(kAddressBits);
  pins.ar_id = members.next(id_bits);
  pins.ar_valid = members.next(1);
  pins.w_last = kNoPin;
  pins.bits = members.bits();
  return pins;
}

/// host_answer_t and memory_answer_t.
constexpr Answer inline_answer(unsigned id_bits) {
  Members members;
  Answer pins{.id_bits = id_bits};
  pins.b_error = members.next(1);
  pins.b_id = members.next(id_bits);
  pins.b_valid = members.next(1);
  pins.w_ready = members.next(1);
  pins.aw_ready = members.next(1);
  pins.r_data = members.next(kDataBits);
  pins.r_poison = members.next(1);
  pins.r_error = members.next(1);
  pins.r_id = members.next(id_bits);
  pins.r_valid = members.next(1);
  pins.ar_ready = members.next(1);
  pins.r_last = kNoPin;
  pins.bits = members.bits();
  return pins;
}

/// `count` bits of a port of 32-bit words from bit `at` on, at most 64.
template <typename Port>
std::uint64_t bits(const Port& port, unsigned at, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned done = 0; done < count;) {
    const unsigned shift = (at + done) % 32;
    const unsigned step = std::min(32 - shift, count - done);
    const std::uint64_t mask = (std::uint64_t{1} << step) - 1;
    value |= (port.at((at + done) / 32) >> shift & mask) << done;
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
    const std::uint64_t changed = (port.at(index) & ~mask) | (value >> done << shift & mask);
    port.at(index) = static_cast<std::uint32_t>(changed);
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

}  // namespace nearkv::emulator::pins

#endif  // NEARKV_EMULATOR_VERILATED_TOP_PINS_HPP_
