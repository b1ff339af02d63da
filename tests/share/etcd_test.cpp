// The membership on a real etcd: fencing of a paused host, takeover, restart of etcd.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>

#include "file_descriptor.hpp"
#include "share/etcd_server.hpp"
#include "share/mapped_memory.hpp"
#include "share/sharing_host.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr int kPatience = 3000;
constexpr useconds_t kPauseUs = 10000;

RegionShape shape_for_two() {
  RegionShape shape;
  shape.extents = 64;
  shape.extent_bytes = 256;
  return shape;
}

std::vector<std::byte> content(std::uint64_t number) {
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(number * 31 + i);
  }
  return bytes;
}

/// Calls `until` again and again; false if it never became true.
template <typename Condition>
bool eventually(Condition until) {
  for (int attempt = 0; attempt < kPatience; ++attempt) {
    if (until()) return true;
    ::usleep(kPauseUs);
  }
  return false;
}

/// An endpoint of etcd that makes each change, and tells of it only when it is asked again.
class AnswerLoser {
 public:
  explicit AnswerLoser(const std::string& endpoint)
      : etcd_(port_of(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)))),
        listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = port_of(0);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(listening_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    endpoint_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  AnswerLoser(const AnswerLoser&) = delete;
  AnswerLoser& operator=(const AnswerLoser&) = delete;
  ~AnswerLoser() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }

  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

 private:
  static sockaddr_in port_of(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  /// What comes until `is_whole` of it, or the end.
  template <typename IsWhole>
  static std::string receive(int fd, IsWhole is_whole) {
    std::string text;
    std::array<char, 4096> buffer;
    ssize_t bytes = 1;
    while (bytes > 0 && !is_whole(text)) {
      bytes = ::read(fd, buffer.data(), buffer.size());
      if (bytes > 0) text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    return text;
  }

  static bool is_request(const std::string& text) {
    const std::size_t end = text.find("\r\n\r\n");
    const std::size_t length = text.find("Content-Length: ");
    return end != std::string::npos &&
           text.size() == end + 4 + std::stoul(text.substr(length + 16));
  }

  void serve() {
    for (;;) {
      const FileDescriptor client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client.get() < 0) return;
      std::string request = receive(client.get(), is_request);
      if (!is_request(request)) continue;
      const FileDescriptor etcd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(etcd.get(), reinterpret_cast<const sockaddr*>(&etcd_), sizeof(etcd_)), 0);
      const bool is_lost = request.find("/v3/kv/txn") != std::string::npos &&
                           made_.insert(request.substr(request.find("\r\n\r\n"))).second;
      request.replace(request.find("\r\n"), 2, "\r\nConnection: close\r\n");
      EXPECT_EQ(::write(etcd.get(), request.data(), request.size()),
                static_cast<ssize_t>(request.size()));
      const std::string answer = receive(etcd.get(), [](const std::string&) { return false; });
      if (is_lost) continue;
      EXPECT_EQ(::write(client.get(), answer.data(), answer.size()),
                static_cast<ssize_t>(answer.size()));
    }
  }

  sockaddr_in etcd_;
  FileDescriptor listening_;
  std::string endpoint_;
  std::set<std::string> made_;  ///< Bodies of changes.
  std::thread thread_;
};

class EtcdTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::is_installed()) GTEST_SKIP() << "etcd not found (install etcd-server)";
    server_.start();
  }

  EtcdServer server_;
};

TEST_F(EtcdTest, LetsOneOfTwoTakeALogOver) {
  std::vector<std::unique_ptr<EtcdMembership>> hosts;
  MembershipView view;
  for (std::uint16_t i = 0; i < 3; ++i) {
    hosts.push_back(std::make_unique<EtcdMembership>(server_.options(3), i));
    ASSERT_EQ(hosts[i]->join(&view), Status::kOk);
    ASSERT_EQ(hosts[i]->activate(&view), Status::kOk);
  }
  EXPECT_EQ(view.revision, 6U);
  EXPECT_TRUE(hosts[0]->confirm());
  EtcdMembership twin(server_.options(3), 0);
  EXPECT_EQ(twin.join(&view), Status::kExists) << "two processes are one host";

  ASSERT_EQ(hosts[0]->leave(), Status::kOk);
  EXPECT_FALSE(hosts[0]->confirm());
  EXPECT_EQ(hosts[0]->keep_alive(), Status::kFenced);
  ASSERT_TRUE(eventually([&] {
    (void)hosts[1]->keep_alive();
    (void)hosts[2]->keep_alive();
    (void)hosts[1]->fence_silent_hosts();
    return hosts[1]->refresh(&view) == Status::kOk && !view.hosts[0].is_live;
  }));
  EXPECT_TRUE(view.hosts[1].is_live);
  EXPECT_TRUE(view.hosts[2].is_live);
  Status first = Status::kInternal;
  Status second = Status::kInternal;
  MembershipView other_view;
  std::thread other([&] { second = hosts[2]->claim(&other_view); });
  first = hosts[1]->claim(&view);
  other.join();
  EXPECT_TRUE((first == Status::kOk) != (second == Status::kOk));
  EtcdMembership& winner = first == Status::kOk ? *hosts[1] : *hosts[2];
  EtcdMembership& loser = first == Status::kOk ? *hosts[2] : *hosts[1];
  EXPECT_EQ(loser.complete(&view), Status::kFenced);
  ASSERT_EQ(winner.complete(&view), Status::kOk);
  EXPECT_FALSE(view.has_orphans());
}

TEST_F(EtcdTest, AChangeWhoseAnswerIsLostIsMadeOnce) {
  const AnswerLoser lossy(server_.options(2).endpoints.front());
  EtcdOptions options = server_.options(2);
  options.endpoints = {lossy.endpoint(), lossy.endpoint()};
  EtcdMembership first(options, 0);
  MembershipView view;
  ASSERT_EQ(first.join(&view), Status::kOk);
  ASSERT_EQ(first.activate(&view), Status::kOk);
  EXPECT_EQ(view.revision, 2U);
  EXPECT_EQ(EtcdMembership(options, 0).join(&view), Status::kExists)
      << "two processes are one host";
  EtcdMembership second(options, 1);
  ASSERT_EQ(second.join(&view), Status::kOk);
  EXPECT_EQ(view.revision, 3U);
  EXPECT_EQ(view.hosts[0].epoch, 1U);
}

/// The child: publishes and tells the parent what was acknowledged, until it is fenced.
[[noreturn]] void publish_until_fenced(const EtcdOptions& options, const std::string& path,
                                       int pipe) {
  std::unique_ptr<MappedMemory> memory;
  EtcdMembership membership(options, 0);
  std::unique_ptr<SharingHost> host;
  if (MappedMemory::open(path, Region::bytes_of(shape_for_two()), &memory) != Status::kOk ||
      SharingHost::join(*memory, membership, 0, &host) != Status::kOk) {
    ::_exit(1);
  }
  Status status = Status::kOk;
  for (std::uint64_t number = 1; status != Status::kFenced;) {
    (void)membership.keep_alive();
    status = host->poll();
    if (status != Status::kOk || !host->is_ready()) continue;
    ObjectId id;
    status = host->publish({number, 0}, content(number), &id);
    if (status == Status::kOk) {
      if (::write(pipe, &number, sizeof(number)) != sizeof(number)) ::_exit(2);
      ++number;
    }
    ::usleep(1000);
  }
  ::_exit(42);
}

TEST_F(EtcdTest, APausedHostIsFencedTakenOverAndNotices) {
  const TemporaryFile file("etcd_share");
  std::unique_ptr<MappedMemory> memory;
  ASSERT_EQ(MappedMemory::open(file.path(), Region::bytes_of(shape_for_two()), &memory),
            Status::kOk);
  Region region;
  ASSERT_EQ(Region::create(*memory, shape_for_two(), &region), Status::kOk);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(pipe[0]);
    publish_until_fenced(server_.options(2), file.path(), pipe[1]);
  }
  ::close(pipe[1]);
  std::uint64_t acknowledged = 0;
  while (acknowledged < 10) {
    ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof(acknowledged)), ssize_t{sizeof(acknowledged)});
  }
  ASSERT_EQ(::kill(child, SIGSTOP), 0);

  EtcdMembership membership(server_.options(2), 1);
  std::unique_ptr<SharingHost> host;
  ASSERT_EQ(SharingHost::join(*memory, membership, 1, &host), Status::kOk);
  Status adopted = Status::kNotYet;
  ASSERT_TRUE(eventually([&] {
    (void)membership.keep_alive();
    (void)membership.fence_silent_hosts();
    EXPECT_EQ(host->poll(), Status::kOk);
    if (host->is_ready() && host->has_orphans()) adopted = host->adopt();
    return adopted == Status::kOk;
  }));
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  for (std::uint64_t more = 0; ::read(pipe[0], &more, sizeof(more)) == sizeof(more);) {
    acknowledged = more;
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42) << "the paused host did not notice";
  for (std::uint64_t number = 1; number <= acknowledged; ++number) {
    Pin pin;
    ASSERT_EQ(host->pin(ObjectKey{number, 0}, &pin), Status::kOk) << "object " << number;
    std::vector<std::byte> bytes(pin.object.length);
    (void)membership.keep_alive();
    ASSERT_EQ(host->read(pin, bytes), Status::kOk);
    EXPECT_EQ(bytes, content(number));
    host->unpin(pin);
  }
  ::close(pipe[0]);
}

TEST_F(EtcdTest, SurvivesARestartOfEtcd) {
  EtcdMembership host(server_.options(2), 0);
  MembershipView before;
  ASSERT_EQ(host.join(&before), Status::kOk);
  ASSERT_EQ(host.activate(&before), Status::kOk);
  server_.kill();
  MembershipView view;
  EXPECT_EQ(host.refresh(&view), Status::kIoError);
  EXPECT_EQ(host.keep_alive(), Status::kIoError);
  ASSERT_TRUE(eventually([&] { return !host.confirm(); })) << "it trusts a lease for ever";
  server_.start();
  EXPECT_EQ(host.refresh(&view), Status::kOk);
  EXPECT_EQ(view, before);
  EtcdMembership next(server_.options(2), 0);
  ASSERT_TRUE(eventually([&] { return next.join(&view) == Status::kOk; }));
  EXPECT_EQ(view.hosts[0].epoch, 2U);
  ASSERT_EQ(view.hosts[0].orphans.size(), 1U);
  EXPECT_EQ(view.hosts[0].orphans[0].epoch, 1U);
}

}  // namespace
}  // namespace nearkv::test
