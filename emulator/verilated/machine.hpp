// A Verilated top as C++ sees it: nkv_top, or one that has it inside.
#ifndef NEARKV_EMULATOR_VERILATED_MACHINE_HPP_
#define NEARKV_EMULATOR_VERILATED_MACHINE_HPP_

#include <cstdint>
#include <vector>

#include "verilated/axi_memory.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv::emulator {

/// An access to a register.
struct RegisterAccess {
  bool is_valid = false;
  bool is_write = false;
  std::uint32_t offset = 0;
  std::uint64_t value = 0;
};

/// What a slice and those around it tell each other in a cycle. Null or false: nothing.
struct SlicePorts {
  // To the slice.
  bool takes_reads = false;      ///< Memory does in this cycle.
  bool takes_writes = false;     ///< Memory has room for a write,
  bool takes_addresses = false;  ///< and takes addresses of writes in this cycle,
  bool takes_data = false;       ///< and data of writes.
  bool host_takes_beats = true;
  bool host_takes_answers = true;
  const AxiMemory::ReadBeat* beat = nullptr;
  const AxiMemory::Answer* answer = nullptr;
  const HostTraffic::Access* host_read = nullptr;
  const HostTraffic::Access* host_write = nullptr;

  // From it, after settle().
  struct HostAnswer {
    bool is_valid;
    bool failed;
    std::uint16_t id;
    Burst data;  ///< Of a read.
  };
  bool reads = false;  ///< Memory has taken `read`.
  bool writes = false;
  bool host_read_taken = false;
  bool host_write_taken = false;
  AxiMemory::Read read{};
  AxiMemory::Write write{};
  HostAnswer host_beat{};
  HostAnswer host_settled{};
};

/// As many engines as slices. A cycle: set what goes in, settle(), use what comes out, clock(). An
/// access stands until a cycle says that it is done.
class Machine {
 public:
  virtual ~Machine() = default;

  RegisterAccess access;
  std::vector<SlicePorts> slices;
  bool access_done = false;
  std::uint64_t register_value = 0;  ///< Of a read that is done; all ones where it failed.
  bool has_interrupts = true;        ///< Without any, completions are polled for.
  std::uint32_t interrupts = 0;
  unsigned host_ids = 4096;  ///< That the host's accesses may have, from 0 on.

  virtual void settle() = 0;
  virtual void clock() = 0;

 protected:
  explicit Machine(unsigned slice_count) : slices(slice_count) {}

  /// One in which nothing goes in.
  void cycle() {
    settle();
    clock();
  }
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_MACHINE_HPP_
