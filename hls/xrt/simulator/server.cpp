#include "xrt/simulator/server.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simulator/messages.pb.h"

namespace nearkv::hw_emu {

namespace {

using namespace std::chrono_literals;

// Between looks at the socket while a kernel is busy.
constexpr auto kBusyTime = 200us;
// Of the clock's rest while none seems to be; then it runs a little, for logic that counts by
// itself.
constexpr auto kIdleWait = 20ms;
constexpr std::uint64_t kIdleCycles = 256;
// A register that is read again and again is waited for: the clock runs longer each time, up to
// this.
constexpr auto kLongestPollTime = 2000us;
// What a request has around the bytes that it carries.
constexpr std::uint64_t kPacketOverhead = 512;
// Of the shim, unless xrt.ini says otherwise.
constexpr std::uint64_t kUsualPacketBytes = 8 << 20;

template <typename Message>
bool parse(const std::string& body, Message* message) {
  return message->ParseFromString(body);
}

}  // namespace

bool HostMemoryChannel::read(std::uint64_t address, std::span<std::byte> data) {
  HostReadRequest request;
  request.set_address(address);
  request.set_size(static_cast<std::uint32_t>(data.size()));
  HostReadReply reply;
  if (!channel_->ask(READ_HOST, request, &reply)) return false;
  if (!reply.done() || reply.data().size() != data.size()) return false;
  std::memcpy(data.data(), reply.data().data(), data.size());
  return true;
}

bool HostMemoryChannel::write(std::uint64_t address, std::span<const std::byte> data) {
  HostWriteRequest request;
  request.set_address(address);
  request.set_size(static_cast<std::uint32_t>(data.size()));
  request.set_data(data.data(), data.size());
  Done reply;
  return channel_->ask(WRITE_HOST, request, &reply) && reply.done();
}

Server::End Server::serve() {
  Channel::Request request;
  for (;;) {
    const bool is_busy = card_->is_busy();
    if (!requests_->has_input(is_busy ? 0ms : std::chrono::milliseconds(kIdleWait))) {
      if (is_busy) {
        card_->run(kBusyTime);
      } else {
        card_->run_cycles(kIdleCycles);
      }
      continue;
    }
    if (!requests_->receive(&request)) return End::kLeft;
    switch (answer(request)) {
      case Answer::kGoOn:
        break;
      case Answer::kClosed:
        return End::kClosed;
      case Answer::kLeft:
        return End::kLeft;
      case Answer::kRefused:
        return End::kRefused;
    }
  }
}

Server::Answer Server::answer(const Channel::Request& request) {
  const std::string& body = request.body;
  if (largest_packet_bytes_ == 0 && request.call != ENVIRONMENT) {
    return refuse(
        "XRT reads no xrt.ini, so that its buffer overflows on the first transfer; set "
        "XRT_INI_PATH to the xrt.ini that came with the xclbin");
  }
  if (request.call != READ_REGISTERS) polled_ = ~std::uint64_t{0};
  switch (request.call) {
    case ENVIRONMENT:
      return set_environment(body);
    case ALLOCATE:
      return allocate(body);
    case FREE:
      return free(body);
    case COPY_TO_DEVICE:
      return copy_to_device(body);
    case COPY_FROM_DEVICE:
      return copy_from_device(body);
    case WRITE_MEMORY:
      return write_memory(body);
    case READ_MEMORY:
      return read_memory(body);
    case WRITE_REGISTERS:
      return write_registers(body);
    case READ_REGISTERS:
      return read_registers(body);
    case TIMESTAMP:
      return timestamp();
    case MESSAGES:
      return send(MessagesReply());
    case CLOSE:
      return close();
    default:
      return refuse("XRT makes call " + std::to_string(request.call) +
                    ", which is not offered here");
  }
}

Server::Answer Server::refuse(const std::string& text) {
  tell_(text);
  return Answer::kRefused;
}

Server::Answer Server::send(const google::protobuf::MessageLite& reply) {
  return requests_->reply(reply) ? Answer::kGoOn : Answer::kLeft;
}

Server::Answer Server::send_done(bool done) {
  Done reply;
  reply.set_done(done);
  return send(reply);
}

// XRT 2.13 goes on with its old buffer after it has let it grow: it is safe only if no later packet
// is larger than the first, which this request is.
Server::Answer Server::set_environment(const std::string& body) {
  EnvironmentRequest request;
  if (!parse(body, &request)) return refuse("XRT's settings cannot be read");
  std::uint64_t packet_bytes = kUsualPacketBytes;
  keeps_run_folder_ = true;
  for (const auto& setting : request.settings()) {
    if (setting.name() == "packet_size") {
      packet_bytes = std::strtoull(setting.value().c_str(), nullptr, 0);
    } else if (setting.name() == "keep_run_dir") {
      keeps_run_folder_ = setting.value() != "false";
    }
  }
  if (body.size() < packet_bytes + kPacketOverhead) {
    return refuse(
        "XRT's buffer would overflow: its xrt.ini allows packets of " +
        std::to_string(packet_bytes) + " bytes, and has only " + std::to_string(body.size()) +
        " bytes of settings; take [Emulation] packet_size and [Debug] room from the xrt.ini "
        "that came with the xclbin");
  }
  largest_packet_bytes_ = body.size();
  return send_done(true);
}

Server::Answer Server::allocate(const std::string& body) {
  AllocateRequest request;
  if (!parse(body, &request)) return refuse("XRT's request for a buffer cannot be read");
  AllocateReply reply;
  reply.set_done(true);
  if (request.is_shared()) {
    *reply.mutable_file() = memory_->share(request.address(), request.size());
    if (reply.file().empty()) tell_("a buffer cannot be shared with the host");
    reply.set_done(!reply.file().empty());
  }
  return send(reply);
}

Server::Answer Server::free(const std::string& body) {
  FreeRequest request;
  if (!parse(body, &request)) return refuse("XRT's request to free a buffer cannot be read");
  memory_->unshare(request.address());
  return send_done(true);
}

Server::Answer Server::copy_to_device(const std::string& body) {
  CopyToDeviceRequest request;
  if (!parse(body, &request)) return refuse("XRT's copy to the device cannot be read");
  const std::size_t bytes = std::min<std::size_t>(request.size(), request.data().size());
  const auto data = std::as_bytes(std::span(request.data())).first(bytes);
  CopyToDeviceReply reply;
  const bool done = memory_->write(request.address() + request.offset(), data);
  if (!done) tell_("a copy to the device lies outside its memory");
  reply.set_size(done ? bytes : 0);
  return send(reply);
}

Server::Answer Server::copy_from_device(const std::string& body) {
  CopyFromDeviceRequest request;
  if (!parse(body, &request)) return refuse("XRT's copy from the device cannot be read");
  if (request.size() > largest_packet_bytes_) {
    return refuse("XRT asks for more bytes at once than its buffer has room for");
  }
  CopyFromDeviceReply reply;
  std::string& data = *reply.mutable_data();
  data.resize(request.size());
  const bool done =
      memory_->read(request.address() + request.offset(), std::as_writable_bytes(std::span(data)));
  if (!done) tell_("a copy from the device lies outside its memory");
  reply.set_size(done ? data.size() : 0);
  return send(reply);
}

Server::Answer Server::write_memory(const std::string& body) {
  WriteRequest request;
  if (!parse(body, &request)) return refuse("XRT's write to memory cannot be read");
  return send_done(memory_->write(request.address(), std::as_bytes(std::span(request.data()))));
}

Server::Answer Server::read_memory(const std::string& body) {
  ReadRequest request;
  if (!parse(body, &request) || request.size() > largest_packet_bytes_) {
    return refuse("XRT's read of memory cannot be read");
  }
  ReadReply reply;
  std::string& data = *reply.mutable_data();
  data.resize(request.size());
  reply.set_done(memory_->read(request.address(), std::as_writable_bytes(std::span(data))));
  return send(reply);
}

Server::Answer Server::write_registers(const std::string& body) {
  WriteRequest request;
  if (!parse(body, &request)) return refuse("XRT's write to registers cannot be read");
  std::vector<std::uint32_t> values(request.data().size() / 4);
  std::memcpy(values.data(), request.data().data(), values.size() * 4);
  return send_done(card_->write_registers(request.address(), values));
}

void Server::run_for_poll(std::uint64_t address) {
  if (polled_ != address) {
    polled_ = address;
    poll_time_ = 0us;
    return;
  }
  if (card_->is_busy()) card_->run(poll_time_);
  poll_time_ = std::min<std::chrono::microseconds>(2 * poll_time_ + 20us, kLongestPollTime);
}

Server::Answer Server::read_registers(const std::string& body) {
  ReadRequest request;
  if (!parse(body, &request) || request.size() > largest_packet_bytes_) {
    return refuse("XRT's read of registers cannot be read");
  }
  run_for_poll(request.address());
  std::vector<std::uint32_t> values(request.size() / 4);
  ReadReply reply;
  reply.set_done(card_->read_registers(request.address(), values));
  reply.set_data(values.data(), values.size() * 4);
  return send(reply);
}

Server::Answer Server::timestamp() {
  // At the 300 MHz that the xclbin states.
  TimestampReply reply;
  reply.set_nanoseconds(card_->cycles() * 10 / 3);
  return send(reply);
}

// The shim then waits for one more packet on its other socket, and for this process.
Server::Answer Server::close() {
  const Answer sent = send_done(true);
  if (sent != Answer::kGoOn) return sent;
  return host_->tell(CLOSE) ? Answer::kClosed : Answer::kLeft;
}

}  // namespace nearkv::hw_emu
