// What an AXI4 master of a kernel is connected to: device memory, which answers late and in order.
#ifndef NEARKV_HLS_XRT_SIMULATOR_AXI_MEMORY_PORT_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_AXI_MEMORY_PORT_HPP_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "xrt/simulator/device_memory.hpp"
#include "xrt/simulator/kernel_model.hpp"

namespace nearkv::hw_emu {

/// Bursts of every length, size and kind that AXI4 has. What AXI4 forbids (a burst across 4 KiB,
/// beats wider than the port, WLAST elsewhere than at the end) and what lies outside memory is
/// answered by an error and told. Each cycle: drive() before the model settles, sample() after.
class AxiMemoryPort {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `prefix` is that of the ports, as m_axi_gmem. `tell` is called with what is wrong.
  AxiMemoryPort(const Ports& ports, const std::string& prefix, DeviceMemory* memory,
                unsigned latency_cycles, Tell tell);

  void drive();
  /// Returns whether anything was transferred.
  bool sample();

 private:
  enum Kind : unsigned { kFixed = 0, kIncrementing = 1, kWrapping = 2 };

  struct Burst {
    std::uint64_t id;
    std::uint64_t address;
    unsigned beats;
    unsigned beat_bytes;
    Kind kind;
    bool failed;
    std::uint64_t ready_at;
    unsigned next = 0;  ///< Beat.

    [[nodiscard]] std::uint64_t address_of(unsigned beat) const;
  };
  struct Answer {
    std::uint64_t id;
    bool failed;
    std::uint64_t ready_at;
  };
  struct Address {
    Pin valid, ready, id, address, length, size, burst;
  };

  Burst take(const Address& channel, const char* what);
  void fill_beat();
  void take_data();

  std::string prefix_;
  DeviceMemory* memory_;
  unsigned latency_cycles_;
  Tell tell_;
  Address ar_, aw_;
  Pin rvalid_, rready_, rid_, rdata_, rresp_, rlast_;
  Pin wvalid_, wready_, wdata_, wstrb_, wlast_;
  Pin bvalid_, bready_, bid_, bresp_;
  std::size_t data_bytes_ = 0;
  std::uint64_t now_ = 0;
  std::deque<Burst> reads_;
  bool beat_is_filled_ = false;
  bool beat_failed_ = false;
  std::deque<Burst> writes_;
  std::deque<Answer> answers_;
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_AXI_MEMORY_PORT_HPP_
