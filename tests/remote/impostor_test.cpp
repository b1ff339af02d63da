// Servers that are none, or stop halfway: who connects to one says so in the time that it has.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>

#include "remote/address.hpp"
#include "remote/hello.hpp"
#include "remote/link.hpp"
#include "remote/proof.hpp"
#include "server_process.hpp"

namespace nearkv::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kConnectTime{300};
// Far more than that on any machine, far less than TCP would wait.
constexpr std::chrono::seconds kSoon{30};

TcpSocket::Deadline soon() { return Clock::now() + kSoon; }

/// Does something with each connection that it accepts, and keeps it open.
class Impostor {
 public:
  explicit Impostor(std::function<void(TcpSocket*)> act) : act_(std::move(act)) {
    sockaddr_storage address{};
    std::string reason;
    EXPECT_EQ(parse_address("127.0.0.1:0", &address, &reason), Status::kOk) << reason;
    EXPECT_EQ(listen_tcp(address, &listener_, &port_, &reason), Status::kOk) << reason;
    thread_ = std::thread([this] { run(); });
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  ~Impostor() {
    stop_ = true;
    thread_.join();
  }

  /// Connects to it.
  Status connect(std::string* reason) const {
    RemoteStoreOptions options;
    options.address = "127.0.0.1:" + std::to_string(port_);
    options.secret = bytes_of(kSecret);
    options.window_bytes = 1 << 20;
    options.connect_time = kConnectTime;
    options.transports = "tcp";
    std::unique_ptr<ObjectStore> store;
    const Clock::time_point begin = Clock::now();
    const Status status = connect_remote(options, &store, reason);
    EXPECT_LT(Clock::now() - begin, kSoon);
    EXPECT_NE(reason->find(options.address), std::string::npos) << *reason;
    return status;
  }

 private:
  void run() {
    std::vector<TcpSocket> open;
    while (!stop_) {
      pollfd ready{listener_.get(), POLLIN, 0};
      ::poll(&ready, 1, 10);
      FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) continue;
      open.emplace_back(std::move(fd));
      act_(&open.back());
    }
  }

  std::function<void(TcpSocket*)> act_;
  FileDescriptor listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Sends bytes one by one, for longer than anybody should wait.
void drip(TcpSocket* socket) {
  const Bytes byte(1);
  for (int i = 0; i < 100 && socket->send(byte, soon()) == Status::kOk; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// What a server that knows the secret does, up to its last message.
nkv_remote_hello shake_hands(TcpSocket* socket) {
  nkv_remote_hello hello{};
  nkv_remote_hello challenge{};
  nkv_remote_hello proof{};
  nkv_remote_hello welcome{};
  challenge.kind = NKV_REMOTE_KIND_CHALLENGE;
  std::vector<std::byte> address;
  const bool shaken = receive_hello(socket, &hello, soon()) == Status::kOk &&
                      send_hello(socket, challenge, soon()) == Status::kOk &&
                      receive_hello(socket, &proof, soon()) == Status::kOk &&
                      receive_address(socket, &address, soon()) == Status::kOk;
  EXPECT_TRUE(shaken);
  Nonce theirs{};
  std::ranges::copy(hello.nonce, theirs.begin());
  Proofs proofs;
  EXPECT_EQ(Proofs::make(bytes_of(kSecret), theirs, Nonce{}, &proofs), Status::kOk);
  EXPECT_TRUE(same_proof(proof.proof, proofs.client));
  welcome.kind = NKV_REMOTE_KIND_WELCOME;
  welcome.request_area_bytes = 4 << 20;
  welcome.data_bytes = hello.data_bytes;
  std::ranges::copy(proofs.server, welcome.proof);
  return welcome;
}

class NoReceiver final : public LinkReceiver {
 public:
  std::optional<Runs> place(std::span<const std::byte>, std::size_t) override {
    return std::nullopt;
  }
  void landed(std::span<const std::byte>, const Runs&) override {}
};

struct Case {
  const char* name;
  Status status;
  void (*act)(TcpSocket* socket);
};

class ImpostorTest : public testing::TestWithParam<Case> {};

TEST_P(ImpostorTest, IsNotWaitedForNorBelieved) {
  const Impostor impostor(GetParam().act);
  std::string reason;
  EXPECT_EQ(impostor.connect(&reason), GetParam().status) << reason;
}

constexpr Case kCases[] = {
    {"SaysNothing", Status::kNoDaemon, [](TcpSocket*) {}},
    {"HangsUp", Status::kNoDaemon, [](TcpSocket* socket) { socket->cut_off(); }},
    {"SpeaksAnotherProtocol", Status::kNoDaemon,
     [](TcpSocket* socket) { (void)socket->send(Bytes(5000, std::byte{'x'}), soon()); }},
    {"SaysHalf", Status::kNoDaemon,
     [](TcpSocket* socket) { (void)socket->send(Bytes(100), soon()); }},
    {"Drips", Status::kNoDaemon, drip},
    {"SaysNothingToAProof", Status::kNoDaemon, [](TcpSocket* socket) { shake_hands(socket); }},
    {"DoesNotKnowTheSecret", Status::kDenied,
     [](TcpSocket* socket) {
       nkv_remote_hello welcome = shake_hands(socket);
       welcome.proof[31] ^= 1;
       (void)send_hello(socket, welcome, soon(), Bytes(100));
     }},
    {"WelcomesUnasked", Status::kDenied,
     [](TcpSocket* socket) {
       nkv_remote_hello welcome{};
       welcome.kind = NKV_REMOTE_KIND_WELCOME;
       (void)send_hello(socket, welcome, soon(), Bytes(100));
     }},
    {"ChallengesTwice", Status::kBadAbi,
     [](TcpSocket* socket) {
       nkv_remote_hello welcome = shake_hands(socket);
       welcome.kind = NKV_REMOTE_KIND_CHALLENGE;
       (void)send_hello(socket, welcome, soon());
     }},
    {"GivesMoreThanWasAsked", Status::kBadAbi,
     [](TcpSocket* socket) {
       nkv_remote_hello welcome = shake_hands(socket);
       welcome.data_bytes += 4096;
       (void)send_hello(socket, welcome, soon(), Bytes(100));
     }},
    {"HasNoAddress", Status::kNoDaemon,
     [](TcpSocket* socket) {
       (void)send_hello(socket, shake_hands(socket), soon());
       socket->end_sending();
     }},
    {"DripsItsAddress", Status::kNoDaemon,
     [](TcpSocket* socket) {
       (void)send_hello(socket, shake_hands(socket), soon());
       drip(socket);
     }},
};

INSTANTIATE_TEST_SUITE_P(Ways, ImpostorTest, testing::ValuesIn(kCases),
                         [](const auto& tried) { return std::string(tried.param.name); });

TEST(ImpostorWorkerTest, IsNotWaitedForWhenItsWorkerIsGoneOrDoesNothing) {
  for (const bool is_gone : {true, false}) {
    UcxContext context;
    std::string reason;
    ASSERT_EQ(make_context("tcp", &context, &reason), Status::kOk) << reason;
    NoReceiver receiver;
    std::unique_ptr<Link> link;
    ASSERT_EQ(Link::make(context, &receiver, &link, &reason), Status::kOk) << reason;
    const std::vector<std::byte> address = link->address();
    if (is_gone) link.reset();
    const Impostor impostor(
        [&](TcpSocket* socket) { (void)send_hello(socket, shake_hands(socket), soon(), address); });
    EXPECT_EQ(impostor.connect(&reason), Status::kNoDaemon) << reason;
  }
}

}  // namespace
}  // namespace nearkv::test
