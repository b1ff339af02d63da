// The one seam a backend implements: registers, memory, and a way to sleep.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/api.h"
#include "nearkv/status.hpp"

namespace nearkv {

/// What a device's memory keeps.
enum class Durability : std::uint8_t {
  kNone,     ///< Gone with the process.
  kProcess,  ///< Outlives the process: a file's page cache.
  kPower,    ///< Outlives the loss of power, once written back: DAX.
};

/// One near-data device. The model, the RTL, CPU cores and hardware differ here and nowhere else.
///
/// Thread safety: read_csr, write_csr and wait may be called from several threads at once.
/// memory() is shared with the device; what may be touched when is the contract of the queues.
class NEARKV_API Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Registers of rtl/abi/nearkv.toml: 64-bit accesses at multiples of 8. An unknown offset
  /// reads as all ones and ignores writes.
  virtual std::uint64_t read_csr(std::uint32_t offset) = 0;
  virtual void write_csr(std::uint32_t offset, std::uint64_t value) = 0;

  /// Device memory as the host sees it; stays mapped while the device lives.
  virtual std::span<std::byte> memory() = 0;

  /// What memory() keeps when this process, or the machine, goes down.
  [[nodiscard]] virtual Durability durability() const { return Durability::kNone; }

  /// Longest that a page had gone without a comparison with its checksums when a command relied on
  /// its last one; zero where what is streamed is compared each time.
  [[nodiscard]] virtual std::chrono::nanoseconds oldest_check() const {
    return std::chrono::nanoseconds::zero();
  }

  /// Cores of this machine that the device's own threads are pinned to; empty if it has none.
  [[nodiscard]] virtual std::vector<int> cores() const { return {}; }

  /// Sleeps until a completion may have been posted since `*epoch` was last set by this call (start
  /// with 0), so that none can slip in between looking and sleeping; in simulation, runs the clock.
  /// kTimeout if nothing happened in time. May wake early.
  virtual Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) = 0;

  /// The device has gone and does not come back: wait() is kNoDevice, registers read as all ones,
  /// and so does memory(). What was read of memory() before this was false is the device's.
  [[nodiscard]] virtual bool is_gone() const { return false; }
};

/// Opens a device by URI and checks its ID and ABI.
///
///   cpu:[PATH][?option&...]   this machine's cores work on memory near them
///       memory=SIZE           device memory; default 1GiB, or the size of PATH
///       threads=N             workers, pinned to cores that any thread of the process may use;
///                             default one for each core of the node
///       node=N                NUMA node of memory and workers; default any
///       huge=on|off           ask for transparent huge pages; default on
///       verify=SECONDS|always pages are compared with their checksums before they are first
///                             used, and again when that is so long ago, default 60; or what a
///                             command streams, each time, and single rows that it picks never
///     PATH: a DAX device (/dev/dax0.0) or a file, created with `memory` bytes if absent; the
///     contents survive the process and, on a DAX device or file system, the loss of power.
///     Without PATH the memory is anonymous.
///   linux:[PATH][?option&...] a card behind its driver; PATH is /dev/nearkv0 by default
///       memory=SIZE           its window of the card's memory; default 64MiB
///       name=NAME             the window outlives the process, for this user under this name
///   model:[?memory=SIZE]      the bit-exact golden model (libnearkv_model.so)
///   SCHEME:...                libnearkv_SCHEME.so beside this library or in NEARKV_PLUGIN_PATH
///
/// SIZE takes KiB, MiB, GiB, TiB. Errors: kBadUri, kNoDevice, kBadAbi, kOutOfMemory, kIoError;
/// `reason`, if given, receives a line that says what to do.
NEARKV_API Status open_device(std::string_view uri, std::unique_ptr<Device>* device,
                              std::string* reason = nullptr);

}  // namespace nearkv
