// The simulator's side of XRT's protocol, before a shim that this test plays: also one that leaves.
#include "xrt/simulator/server.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "simulator/messages.pb.h"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;
namespace hw = hw_emu;

constexpr std::uint64_t kRegisters = 0x10000;
constexpr std::uint64_t kDeafRegisters = 0x20000;
constexpr std::uint64_t kPacketBytes = 4096;

/// Registers that read as what was written, plus one; a deaf one answers nothing.
class FakeKernel final : public hw::KernelModel {
 public:
  explicit FakeKernel(bool is_deaf) : is_deaf_(is_deaf) {
    ports_.add("s_awvalid", awvalid_, 1);
    ports_.add("s_awready", awready_, 1);
    ports_.add("s_awaddr", awaddr_, 12);
    ports_.add("s_wvalid", wvalid_, 1);
    ports_.add("s_wready", wready_, 1);
    ports_.add("s_wdata", wdata_, 32);
    ports_.add("s_bvalid", bvalid_, 1);
    ports_.add("s_bready", bready_, 1);
    ports_.add("s_arvalid", arvalid_, 1);
    ports_.add("s_arready", arready_, 1);
    ports_.add("s_araddr", araddr_, 12);
    ports_.add("s_rvalid", rvalid_, 1);
    ports_.add("s_rready", rready_, 1);
    ports_.add("s_rdata", rdata_, 32);
  }

  void settle() override { awready_ = wready_ = arready_ = !is_deaf_; }
  void clock() override {
    if (awvalid_ && awready_) address_ = awaddr_;
    if (wvalid_ && wready_) {
      registers_[address_ / 4] = wdata_;
      written.push_back(address_);
      bvalid_ = 1;
    } else if (bready_) {
      bvalid_ = 0;
    }
    if (arvalid_ && arready_) {
      rdata_ = registers_[araddr_ / 4] + 1;
      rvalid_ = 1;
    } else if (rready_) {
      rvalid_ = 0;
    }
  }

  static inline std::vector<std::uint32_t> written;

 private:
  bool is_deaf_;
  std::uint8_t awvalid_ = 0, awready_ = 0, wvalid_ = 0, wready_ = 0, bvalid_ = 0, bready_ = 0;
  std::uint8_t arvalid_ = 0, arready_ = 0, rvalid_ = 0, rready_ = 0;
  std::uint16_t awaddr_ = 0, araddr_ = 0, address_ = 0;
  std::uint32_t wdata_ = 0, rdata_ = 0;
  std::array<std::uint32_t, 1024> registers_{};
};

/// A socket that listens, and who has come.
class Listener {
 public:
  explicit Listener(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    simulator_ = hw::Channel::connect(path, 1s);
    shim_ = ::accept(socket_, nullptr, nullptr);
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(shim_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  ~Listener() {
    leave();
    ::close(socket_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] hw::Channel* simulator() const { return simulator_.get(); }
  [[nodiscard]] int shim() const { return shim_; }
  void leave() {
    if (shim_ >= 0) ::close(shim_);
    shim_ = -1;
  }

 private:
  int socket_;
  int shim_ = -1;
  std::unique_ptr<hw::Channel> simulator_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    description_.banks = {{.tag = "DDR[0]", .base = 0, .bytes = 1 << 20}};
    description_.memory_latency_cycles = 10;
    for (const auto& [name, base] : {std::pair{"echo", kRegisters}, {"deaf", kDeafRegisters}}) {
      hw::Kernel kernel;
      kernel.name = name;
      kernel.protocol = "ap_ctrl_hs";
      kernel.control = "s";
      kernel.register_bytes = 4096;
      kernel.compute_units = {{.name = std::string(name) + "_1", .base = base}};
      description_.kernels.push_back(kernel);
    }
    memory_ = std::make_unique<hw::DeviceMemory>(description_.banks, nullptr);
    const auto tell = [this](const std::string& text) { told_ += text + "\n"; };
    card_ = std::make_unique<hw::Card>(description_, memory_.get(), tell);
    server_ = std::make_unique<hw::Server>(requests_->simulator(), host_->simulator(),
                                           memory_.get(), card_.get(), tell);
    FakeKernel::written.clear();
  }
  ~ServerTest() override {
    requests_->leave();
    if (end_.valid()) end_.wait();
    std::filesystem::remove_all(folder_);
  }

  void serve() {
    end_ = std::async(std::launch::async, [this] { return server_->serve(); });
  }
  hw::Server::End end() {
    EXPECT_EQ(end_.wait_for(20s), std::future_status::ready);
    return end_.get();
  }

  void send(std::uint32_t call, const google::protobuf::MessageLite& body) const {
    hw::RequestHeader header;
    header.set_size(body.ByteSizeLong());
    header.set_call(call);
    const std::string bytes = header.SerializeAsString() + body.SerializeAsString();
    ASSERT_EQ(::send(requests_->shim(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  template <typename Reply>
  Reply ask(std::uint32_t call, const google::protobuf::MessageLite& body) const {
    send(call, body);
    std::string bytes(9, '\0');
    EXPECT_EQ(::recv(requests_->shim(), bytes.data(), 9, MSG_WAITALL), 9);
    hw::ReplyHeader header;
    EXPECT_TRUE(header.ParseFromString(bytes));
    bytes.resize(header.size());
    if (!bytes.empty()) {
      EXPECT_EQ(::recv(requests_->shim(), bytes.data(), bytes.size(), MSG_WAITALL),
                static_cast<ssize_t>(bytes.size()));
    }
    Reply reply;
    EXPECT_TRUE(reply.ParseFromString(bytes));
    return reply;
  }

  static hw::EnvironmentRequest settings(std::size_t room) {
    hw::EnvironmentRequest request;
    auto* const packet = request.add_settings();
    packet->set_name("packet_size");
    packet->set_value(std::to_string(kPacketBytes));
    auto* const filler = request.add_settings();
    filler->set_name("Debug.room");
    filler->set_value(std::string(room, 'x'));
    return request;
  }
  void begin() {
    serve();
    EXPECT_TRUE(ask<hw::Done>(hw::ENVIRONMENT, settings(2 * kPacketBytes)).done());
  }
  bool write_registers(std::uint64_t address, const std::vector<std::uint32_t>& values) const {
    hw::WriteRequest request;
    request.set_address(address);
    request.set_size(static_cast<std::uint32_t>(4 * values.size()));
    request.set_data(values.data(), 4 * values.size());
    return ask<hw::Done>(hw::WRITE_REGISTERS, request).done();
  }
  hw::ReadReply read_registers(std::uint64_t address, std::uint32_t bytes) const {
    hw::ReadRequest request;
    request.set_address(address);
    request.set_size(bytes);
    return ask<hw::ReadReply>(hw::READ_REGISTERS, request);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("nearkv-xrt-" + std::to_string(::getpid()));
  const bool made_ = std::filesystem::create_directories(folder_);
  std::unique_ptr<Listener> requests_ = std::make_unique<Listener>(folder_ / "requests");
  std::unique_ptr<Listener> host_ = std::make_unique<Listener>(folder_ / "host");
  hw::Description description_;
  std::unique_ptr<hw::DeviceMemory> memory_;
  std::unique_ptr<hw::Card> card_;
  std::unique_ptr<hw::Server> server_;
  std::string told_;
  std::future<hw::Server::End> end_;
};

TEST_F(ServerTest, CopiesToTheDeviceAndBack) {
  begin();
  hw::CopyToDeviceRequest to;
  to.set_address(0x8000);
  to.set_data("near the data");
  to.set_size(13);
  to.set_offset(5);
  EXPECT_EQ(ask<hw::CopyToDeviceReply>(hw::COPY_TO_DEVICE, to).size(), 13U);
  hw::CopyFromDeviceRequest from;
  from.set_address(0x8000);
  from.set_size(4);
  from.set_offset(14);
  EXPECT_EQ(ask<hw::CopyFromDeviceReply>(hw::COPY_FROM_DEVICE, from).data(), "data");
}

TEST_F(ServerTest, CopiesOutsideMemoryDoNothingAndAreTold) {
  begin();
  hw::CopyToDeviceRequest to;
  to.set_address((1 << 20) - 1);
  to.set_data("xx");
  to.set_size(2);
  to.set_offset(0);
  EXPECT_EQ(ask<hw::CopyToDeviceReply>(hw::COPY_TO_DEVICE, to).size(), 0U);
  EXPECT_NE(told_.find("outside its memory"), std::string::npos) << told_;
}

TEST_F(ServerTest, WritesTheRegisterThatStartsAKernelLast) {
  begin();
  EXPECT_TRUE(write_registers(kRegisters, {1, 0, 0, 0, 41, 42}));
  EXPECT_EQ(FakeKernel::written, (std::vector<std::uint32_t>{20, 16, 12, 8, 4, 0}));
  const auto reply = read_registers(kRegisters + 16, 8);
  std::array<std::uint32_t, 2> values{};
  ASSERT_EQ(reply.data().size(), sizeof(values));
  std::memcpy(values.data(), reply.data().data(), sizeof(values));
  EXPECT_EQ(values, (std::array<std::uint32_t, 2>{42, 43}));
}

TEST_F(ServerTest, RegistersThatAreNotThereAreRefused) {
  begin();
  EXPECT_FALSE(read_registers(0x5000, 4).done());
  EXPECT_FALSE(write_registers(kRegisters + 4092, {1, 2}));
  EXPECT_NE(told_.find("no compute unit has 8 bytes of registers at 0x10ffc"), std::string::npos)
      << told_;
}

TEST_F(ServerTest, AKernelThatDoesNotAnswerHangsNobody) {
  begin();
  EXPECT_FALSE(read_registers(kDeafRegisters, 4).done());
  EXPECT_FALSE(write_registers(kDeafRegisters, {1}));
  EXPECT_TRUE(read_registers(kRegisters, 4).done());
  EXPECT_NE(told_.find("deaf_1: register 0x0 was not answered"), std::string::npos) << told_;
}

TEST_F(ServerTest, ClosesOnBothSockets) {
  begin();
  EXPECT_TRUE(ask<hw::Done>(hw::CLOSE, hw::MessagesReply::default_instance()).done());
  EXPECT_EQ(end(), hw::Server::End::kClosed);
  std::array<char, 14> packet{};
  EXPECT_EQ(::recv(host_->shim(), packet.data(), packet.size(), MSG_WAITALL), 14);
}

TEST_F(ServerTest, EndsWhenTheApplicationIsGone) {
  begin();
  requests_->leave();
  EXPECT_EQ(end(), hw::Server::End::kLeft);
}

TEST_F(ServerTest, KeepsNoRunOfAnApplicationThatHasNotAskedForIt) {
  serve();
  requests_->leave();
  EXPECT_EQ(end(), hw::Server::End::kLeft);
  EXPECT_FALSE(server_->keeps_run_folder());
}

TEST_F(ServerTest, EndsWhenTheApplicationDiesAmidARequest) {
  begin();
  ASSERT_EQ(::send(requests_->shim(), "\x09\x01", 2, MSG_NOSIGNAL), 2);
  requests_->leave();
  EXPECT_EQ(end(), hw::Server::End::kLeft);
}

TEST_F(ServerTest, RefusesSettingsByWhichXrtWouldOverrunItsBuffer) {
  serve();
  send(hw::ENVIRONMENT, settings(kPacketBytes / 2));
  EXPECT_EQ(end(), hw::Server::End::kRefused);
  EXPECT_NE(told_.find("buffer would overflow"), std::string::npos) << told_;
}

TEST_F(ServerTest, RefusesToGoOnWithoutSettings) {
  serve();
  hw::AllocateRequest request;
  request.set_address(0);
  request.set_size(1);
  send(hw::ALLOCATE, request);
  EXPECT_EQ(end(), hw::Server::End::kRefused);
}

TEST_F(ServerTest, RefusesCallsThatItDoesNotKnow) {
  begin();
  send(38, hw::MessagesReply::default_instance());
  EXPECT_EQ(end(), hw::Server::End::kRefused);
  EXPECT_NE(told_.find("call 38"), std::string::npos) << told_;
}

TEST_F(ServerTest, GarbageIsRefused) {
  begin();
  hw::RequestHeader header;
  header.set_size(3);
  header.set_call(hw::COPY_TO_DEVICE);
  const std::string bytes = header.SerializeAsString() + "\xff\xff\xff";
  ASSERT_EQ(::send(requests_->shim(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 17);
  EXPECT_EQ(end(), hw::Server::End::kRefused);
}

}  // namespace
}  // namespace nearkv::test

std::unique_ptr<nearkv::hw_emu::KernelModel> nearkv::hw_emu::make_kernel_model(
    std::string_view kernel, std::string_view) {
  return std::make_unique<nearkv::test::FakeKernel>(kernel == "deaf");
}
