// Serves an application's shim: its requests by the card, the card's wishes for host memory by the
// shim.
#ifndef NEARKV_HLS_XRT_SIMULATOR_SERVER_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_SERVER_HPP_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "xrt/simulator/card.hpp"
#include "xrt/simulator/channel.hpp"
#include "xrt/simulator/device_memory.hpp"

namespace nearkv::hw_emu {

/// Host memory through the shim's second socket.
class HostMemoryChannel final : public HostMemory {
 public:
  explicit HostMemoryChannel(Channel* channel) : channel_(channel) {}
  [[nodiscard]] bool read(std::uint64_t address, std::span<std::byte> data) override;
  [[nodiscard]] bool write(std::uint64_t address, std::span<const std::byte> data) override;

 private:
  Channel* channel_;
};

/// Used by one thread. Pointers outlive it.
class Server {
 public:
  /// Why serve() ended.
  enum class End {
    kClosed,   ///< The application has closed the device.
    kLeft,     ///< It is gone.
    kRefused,  ///< It asked for what is not offered, or would harm itself: that was told.
  };

  Server(Channel* requests, Channel* host, DeviceMemory* memory, Card* card, Card::Tell tell)
      : requests_(requests), host_(host), memory_(memory), card_(card), tell_(std::move(tell)) {}

  /// Answers requests, and runs the card's clock between them, until the application ends.
  End serve();
  /// Whether the application wants to keep the folder of this run; known once it is served.
  [[nodiscard]] bool keeps_run_folder() const { return keeps_run_folder_; }

 private:
  enum class Answer { kGoOn, kClosed, kLeft, kRefused };

  Answer answer(const Channel::Request& request);
  Answer set_environment(const std::string& body);
  Answer allocate(const std::string& body);
  Answer free(const std::string& body);
  Answer copy_to_device(const std::string& body);
  Answer copy_from_device(const std::string& body);
  Answer write_memory(const std::string& body);
  Answer read_memory(const std::string& body);
  Answer write_registers(const std::string& body);
  Answer read_registers(const std::string& body);
  Answer timestamp();
  Answer close();

  [[nodiscard]] Answer send(const google::protobuf::MessageLite& reply);
  [[nodiscard]] Answer send_done(bool done);
  Answer refuse(const std::string& text);
  void run_for_poll(std::uint64_t address);

  Channel* requests_;
  Channel* host_;
  DeviceMemory* memory_;
  Card* card_;
  Card::Tell tell_;
  std::uint64_t largest_packet_bytes_ =
      0;  // That the first request has made room for; 0: none came.
  bool keeps_run_folder_ = false;
  std::uint64_t polled_ = ~std::uint64_t{0};
  std::chrono::microseconds poll_time_{};
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_SERVER_HPP_
