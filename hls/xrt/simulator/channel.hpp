// A connection to XRT's shim: packets of a header and a protobuf body, each way.
#ifndef NEARKV_HLS_XRT_SIMULATOR_CHANNEL_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_CHANNEL_HPP_

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace nearkv::hw_emu {

/// One Unix socket. Calls that return false found that the other side is gone; nothing can be done
/// with the connection afterwards.
class Channel {
 public:
  struct Request {
    std::uint32_t call = 0;
    std::string body;
  };

  /// Connects to a socket that the shim opens about now; null if it does not for `timeout`, or
  /// `is_there` no longer says that the shim lives.
  static std::unique_ptr<Channel> connect(
      const std::string& path, std::chrono::milliseconds timeout,
      const std::function<bool()>& is_there = [] { return true; });
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Whether something has come, or the other side is gone; waits so long for it.
  [[nodiscard]] bool has_input(std::chrono::milliseconds wait) const;

  [[nodiscard]] bool receive(Request* request);
  [[nodiscard]] bool reply(const google::protobuf::MessageLite& body);

  /// Asks the other side, and waits for its reply.
  [[nodiscard]] bool ask(std::uint32_t call, const google::protobuf::MessageLite& body,
                         google::protobuf::MessageLite* reply);
  /// Tells it something that has no body and no reply.
  [[nodiscard]] bool tell(std::uint32_t call);

 private:
  explicit Channel(int socket) : socket_(socket) {}

  bool read(void* data, std::size_t bytes) const;
  bool write(const std::string& data) const;

  int socket_;
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_CHANNEL_HPP_
