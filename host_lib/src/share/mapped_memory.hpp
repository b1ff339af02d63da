// Shared memory as this machine maps it: a DAX device, or a file.
#pragma once

#include <memory>
#include <string>

#include "nearkv/status.hpp"
#include "share/shared_memory.hpp"

namespace nearkv {

/// A mapping, with the processor's own instructions for its cache. On x86 flush is CLWB where the
/// processor has it, else CLFLUSHOPT or CLFLUSH; the fence is MFENCE, because SFENCE would let
/// later loads pass an invalidation. On Arm, DC CVAC, DC CIVAC and DSB.
///
/// What CXL adds: a fence counts as done when the device has acknowledged the writes. Hosts behind
/// ports that acknowledge earlier must not share a region.
class MappedMemory : public SharedMemory {
 public:
  /// Maps `bytes` of the file or device from its start; creates a file that is missing, and makes a
  /// shorter one longer. kIoError if the system refuses, kUnsupported on other processors.
  [[nodiscard]] static Status open(const std::string& path, std::uint64_t bytes,
                                   std::unique_ptr<MappedMemory>* memory);

  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() override;

  [[nodiscard]] std::uint64_t size_bytes() const override { return mapping_.size(); }
  void copy_out(std::uint64_t at, std::span<std::byte> bytes) override;
  void copy_in(std::uint64_t at, std::span<const std::byte> bytes) override;
  void flush(std::uint64_t at, std::uint64_t bytes) override;
  void invalidate(std::uint64_t at, std::uint64_t bytes) override;
  void fence() override;

 private:
  explicit MappedMemory(std::span<std::byte> mapping) : mapping_(mapping) {}

  std::span<std::byte> mapping_;
};

}  // namespace nearkv
