// The banks of device memory: sparse, as large as the description says, shared with the host where
// it asks.
#ifndef NEARKV_HLS_XRT_SIMULATOR_DEVICE_MEMORY_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_DEVICE_MEMORY_HPP_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "xrt/xclbin/description.hpp"

namespace nearkv::hw_emu {

/// Memory of the host, which lies behind a connection to it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  [[nodiscard]] virtual bool read(std::uint64_t address, std::span<std::byte> data) = 0;
  [[nodiscard]] virtual bool write(std::uint64_t address, std::span<const std::byte> data) = 0;
};

/// Bytes of all banks by their device address. A page takes memory once it is touched. Accesses
/// that do not lie in one bank as a whole return false and do nothing.
class DeviceMemory {
 public:
  /// `host` serves the banks that are the host's, and outlives this. Throws std::runtime_error if
  /// the system does not grant the address space.
  DeviceMemory(std::span<const Bank> banks, HostMemory* host);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] bool read(std::uint64_t address, std::span<std::byte> data) const;
  [[nodiscard]] bool write(std::uint64_t address, std::span<const std::byte> data);
  /// Only bytes i with bit i of `strobes`, byte by byte.
  [[nodiscard]] bool write(std::uint64_t address, std::span<const std::byte> data,
                           std::span<const std::uint8_t> strobes);

  /// Gives these bytes to the host too, by a file that it opens at the path returned; they are zero
  /// then. Empty if they are not whole pages of one bank.
  [[nodiscard]] std::string share(std::uint64_t address, std::size_t bytes);
  /// Takes back what begins at `address`, if it was shared.
  void unshare(std::uint64_t address);

 private:
  struct Place {
    Bank bank;
    std::byte* data = nullptr;  // Null: the host's.
  };
  struct Shared {
    int file;
    std::size_t bytes;
  };

  [[nodiscard]] const Place* place_of(std::uint64_t address, std::size_t bytes) const;

  std::vector<Place> places_;
  std::map<std::uint64_t, Shared> shared_;
  HostMemory* host_;
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_DEVICE_MEMORY_HPP_
