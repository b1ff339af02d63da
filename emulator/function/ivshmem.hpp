// QEMU's ivshmem-doorbell as its server sees it: shared memory, and a descriptor per interrupt.
// The protocol is docs/specs/ivshmem-spec.txt of QEMU.
#ifndef NEARKV_EMULATOR_IVSHMEM_HPP_
#define NEARKV_EMULATOR_IVSHMEM_HPP_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"
#include "support/device_memory.hpp"

namespace nearkv::emulator {

/// Serves one QEMU at a time; a newcomer takes the place of who was there. One thread at a time.
class IvshmemServer {
 public:
  /// Listens at `path`, where nothing may be but a socket that nobody serves. Null, with `reason`
  /// told, if it cannot.
  static std::unique_ptr<IvshmemServer> listen(const std::string& path, std::size_t shared_bytes,
                                               unsigned vectors, std::string* reason);
  ~IvshmemServer();
  IvshmemServer(const IvshmemServer&) = delete;
  IvshmemServer& operator=(const IvshmemServer&) = delete;

  /// What guests see as BAR 2.
  [[nodiscard]] std::span<std::byte> shared() const { return shared_->bytes(); }

  /// Sends a message to the guest, if there is one.
  void interrupt(unsigned vector);

  /// Takes newcomers, notices who has gone, and sleeps until the guest rings, at most so long.
  void serve(std::chrono::nanoseconds patience);

 private:
  IvshmemServer(std::string path, FileDescriptor listener, FileDescriptor file,
                std::unique_ptr<DeviceMemory> shared, unsigned vectors);

  void welcome();
  [[nodiscard]] bool send(std::int64_t message, const FileDescriptor* descriptor = nullptr) const;

  std::string path_;
  FileDescriptor listener_;
  FileDescriptor file_;
  std::unique_ptr<DeviceMemory> shared_;
  FileDescriptor guest_;
  FileDescriptor rung_;                     ///< By the guest.
  std::vector<FileDescriptor> interrupts_;  ///< To it.
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_IVSHMEM_HPP_
