// The AXI ports of a top's slices, as a Machine's SlicePorts. Each channel has a handshake of its
// own, so that an address and its data go at different times.
#ifndef NEARKV_EMULATOR_VERILATED_AXI_SLICES_HPP_
#define NEARKV_EMULATOR_VERILATED_AXI_SLICES_HPP_

#include <deque>
#include <vector>

#include "verilated/machine.hpp"
#include "verilated/top_pins.hpp"

namespace nearkv::emulator {

/// Where a top's ports have what.
struct AxiPins {
  pins::Request host_request;
  pins::Answer host_answer;
  pins::Request memory_request;
  pins::Answer memory_answer;
};

/// A top's ports: of each, all slices' structs are side by side, slice 0 lowest.
template <typename HostRequest, typename HostAnswer, typename MemoryRequest, typename MemoryAnswer>
struct AxiPorts {
  HostRequest& host_request;  ///< Into the top.
  const HostAnswer& host_answer;
  const MemoryRequest& memory_request;
  MemoryAnswer& memory_answer;  ///< Into the top.
};

/// A cycle: set(), evaluate the top, get().
template <const AxiPins& kPins>
class AxiSlices {
 public:
  explicit AxiSlices(std::size_t slices) : pending_(slices) {}

  template <typename Ports>
  void set(const std::vector<SlicePorts>& slices, const Ports& ports) {
    for (unsigned i = 0; i < slices.size(); ++i) {
      set_memory(slices[i], &pending_[i], ports.memory_answer, i * kPins.memory_answer.bits);
      set_host(slices[i], pending_[i], ports.host_request, i * kPins.host_request.bits);
    }
  }

  template <typename Ports>
  void get(std::vector<SlicePorts>* slices, const Ports& ports) {
    for (unsigned i = 0; i < slices->size(); ++i) {
      get_memory(ports.memory_request, i * kPins.memory_request.bits, &pending_[i], &(*slices)[i]);
      get_host(ports.host_answer, i * kPins.host_answer.bits, &pending_[i], &(*slices)[i]);
    }
  }

 private:
  // Addresses that wait for their data at a slice's memory, and data for their addresses.
  static constexpr std::size_t kQueuedWrites = 4;

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

  template <typename Port>
  static void set_memory(const SlicePorts& slice, Pending* pending, Port& port, unsigned at) {
    constexpr const pins::Answer& kPin = kPins.memory_answer;
    if (slice.beat != nullptr) pending->beats.push_back(*slice.beat);
    if (slice.answer != nullptr) pending->answers.push_back(*slice.answer);
    pending->takes_address = slice.takes_addresses && pending->addresses.size() < kQueuedWrites;
    pending->takes_data = slice.takes_data && pending->data.size() < kQueuedWrites;
    pins::set_bits(port, at + kPin.ar_ready, 1, slice.takes_reads);
    pins::set_bits(port, at + kPin.aw_ready, 1, pending->takes_address);
    pins::set_bits(port, at + kPin.w_ready, 1, pending->takes_data);
    pins::set_bits(port, at + kPin.r_valid, 1, !pending->beats.empty());
    if (!pending->beats.empty()) {
      const AxiMemory::ReadBeat& beat = pending->beats.front();
      pins::set_data(port, at + kPin.r_data, beat.data);
      pins::set_bits(port, at + kPin.r_poison, 1, beat.poison);
      pins::set_bits(port, at + kPin.r_error, 1, beat.error);
      pins::set_bits(port, at + kPin.r_id, kPin.id_bits, beat.id);
      if constexpr (kPin.r_last != pins::kNoPin) pins::set_bits(port, at + kPin.r_last, 1, 1);
    }
    pins::set_bits(port, at + kPin.b_valid, 1, !pending->answers.empty());
    if (!pending->answers.empty()) {
      const AxiMemory::Answer& answer = pending->answers.front();
      pins::set_bits(port, at + kPin.b_error, 1, answer.error);
      pins::set_bits(port, at + kPin.b_id, kPin.id_bits, answer.id);
    }
  }

  template <typename Port>
  static void get_memory(const Port& port, unsigned at, Pending* pending, SlicePorts* slice) {
    constexpr const pins::Request& kPin = kPins.memory_request;
    const auto is_set = [&](unsigned bit) { return pins::bits(port, at + bit, 1) != 0; };
    const auto access = [&](unsigned id, unsigned address) {
      return AxiMemory::Read{
          .id = static_cast<std::uint16_t>(pins::bits(port, at + id, kPin.id_bits)),
          .address = pins::bits(port, at + address, pins::kAddressBits)};
    };
    slice->reads = slice->takes_reads && is_set(kPin.ar_valid);
    if (slice->reads) slice->read = access(kPin.ar_id, kPin.ar_address);
    if (pending->takes_address && is_set(kPin.aw_valid)) {
      pending->addresses.push_back(access(kPin.aw_id, kPin.aw_address));
    }
    if (pending->takes_data && is_set(kPin.w_valid)) {
      pending->data.push_back({.strobes = pins::bits(port, at + kPin.strobes, 64),
                               .data = pins::data_at(port, at + kPin.data)});
    }
    slice->writes = slice->takes_writes && !pending->addresses.empty() && !pending->data.empty();
    if (slice->writes) {
      const AxiMemory::Read& to = pending->addresses.front();
      const WriteData& what = pending->data.front();
      slice->write = {
          .id = to.id, .address = to.address, .strobes = what.strobes, .data = what.data};
      pending->addresses.pop_front();
      pending->data.pop_front();
    }
    if (!pending->beats.empty() && is_set(kPin.r_ready)) pending->beats.pop_front();
    if (!pending->answers.empty() && is_set(kPin.b_ready)) pending->answers.pop_front();
  }

  template <typename Port>
  static void set_host(const SlicePorts& slice, const Pending& pending, Port& port, unsigned at) {
    constexpr const pins::Request& kPin = kPins.host_request;
    const HostTraffic::Access* const read = slice.host_read;
    const HostTraffic::Access* const write = slice.host_write;
    pins::set_bits(port, at + kPin.ar_valid, 1, read != nullptr);
    if (read != nullptr) {
      pins::set_bits(port, at + kPin.ar_address, pins::kAddressBits, read->address);
      pins::set_bits(port, at + kPin.ar_id, kPin.id_bits, read->id);
    }
    const bool offers_address = write != nullptr && !pending.host_address_taken;
    const bool offers_data = write != nullptr && !pending.host_data_taken;
    pins::set_bits(port, at + kPin.aw_valid, 1, offers_address);
    pins::set_bits(port, at + kPin.w_valid, 1, offers_data);
    if (write != nullptr) {
      pins::set_bits(port, at + kPin.aw_address, pins::kAddressBits, write->address);
      pins::set_bits(port, at + kPin.aw_id, kPin.id_bits, write->id);
      pins::set_data(port, at + kPin.data, write->data);
      pins::set_bits(port, at + kPin.strobes, 64, ~std::uint64_t{0});
      if constexpr (kPin.w_last != pins::kNoPin) pins::set_bits(port, at + kPin.w_last, 1, 1);
    }
    pins::set_bits(port, at + kPin.r_ready, 1, slice.host_takes_beats);
    pins::set_bits(port, at + kPin.b_ready, 1, slice.host_takes_answers);
  }

  template <typename Port>
  static void get_host(const Port& port, unsigned at, Pending* pending, SlicePorts* slice) {
    constexpr const pins::Answer& kPin = kPins.host_answer;
    const auto is_set = [&](unsigned bit) { return pins::bits(port, at + bit, 1) != 0; };
    const auto id_at = [&](unsigned bit) {
      return static_cast<std::uint16_t>(pins::bits(port, at + bit, kPin.id_bits));
    };
    slice->host_read_taken = slice->host_read != nullptr && is_set(kPin.ar_ready);
    if (slice->host_write != nullptr) {
      pending->host_address_taken |= is_set(kPin.aw_ready);
      pending->host_data_taken |= is_set(kPin.w_ready);
    }
    slice->host_write_taken = pending->host_address_taken && pending->host_data_taken;
    if (slice->host_write_taken) pending->host_address_taken = pending->host_data_taken = false;
    slice->host_beat.is_valid = slice->host_takes_beats && is_set(kPin.r_valid);
    if (slice->host_beat.is_valid) {
      slice->host_beat.failed = is_set(kPin.r_poison) || is_set(kPin.r_error);
      slice->host_beat.id = id_at(kPin.r_id);
      slice->host_beat.data = pins::data_at(port, at + kPin.r_data);
    }
    slice->host_settled.is_valid = slice->host_takes_answers && is_set(kPin.b_valid);
    if (slice->host_settled.is_valid) {
      slice->host_settled.failed = is_set(kPin.b_error);
      slice->host_settled.id = id_at(kPin.b_id);
    }
  }

  std::vector<Pending> pending_;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_AXI_SLICES_HPP_
