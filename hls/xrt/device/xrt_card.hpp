// The engine on a card of XRT: its registers through the kernel's, its memory as a buffer that the
// host has mapped.
#ifndef NEARKV_HLS_XRT_DEVICE_XRT_CARD_HPP_
#define NEARKV_HLS_XRT_DEVICE_XRT_CARD_HPP_

#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace nearkv::xrt_device {

struct CardOptions {
  unsigned index = 0;  ///< Of the card, as XRT counts them.
  std::string xclbin;  ///< Empty: nearkv.xclbin beside this library.
  std::size_t memory_bytes = 0;
};

/// Calls may come from two threads.
class XrtCard {
 public:
  /// Loads the xclbin if the card has not got it, and resets the engine. Null, with a one-line
  /// reason, if there is no such card, the xclbin has no engine or one of another ABI, or memory
  /// cannot be had.
  static std::unique_ptr<XrtCard> open(const CardOptions& options, std::string* reason);

  /// Reads a register; all ones if the card is lost.
  std::uint64_t read_csr(std::uint32_t offset);
  /// Writes a register; without effect if the card is lost.
  void write_csr(std::uint32_t offset, std::uint64_t value);
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }

  /// Polls until a queue's interrupt is there, and takes it as a handler does: puts its status bit
  /// back. False after `timeout`.
  bool wait(std::chrono::nanoseconds timeout);

 private:
  XrtCard(xrt::kernel kernel, xrt::bo buffer, std::size_t memory_bytes, std::uint32_t registers);

  std::uint64_t read(std::uint32_t offset);
  void write(std::uint32_t offset, std::uint64_t value);

  std::mutex mutex_;
  xrt::kernel kernel_;
  xrt::bo buffer_;
  std::span<std::byte> memory_;
  std::uint32_t registers_;  // Where the engine's begin among the kernel's.
  std::uint64_t masked_ = 0;
};

}  // namespace nearkv::xrt_device

#endif  // NEARKV_HLS_XRT_DEVICE_XRT_CARD_HPP_
