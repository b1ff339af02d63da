// A store that is served to other machines, as a process that tests can kill:
//
//   remote_test_server POOL_PATH ADDRESS SECRET TRANSPORTS
//
// The pool is made if it is not there. Tenants 1 and 2 may be used, 3 may not. It prints its port
// and serves until its input ends.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iostream>
#include <span>

#include "daemon/server/session_host.hpp"
#include "nearkv/object_store.hpp"
#include "remote/remote_server.hpp"

namespace {

constexpr const char* kMemory = "256MiB";

int serve(std::span<char*> arguments) {
  using namespace nearkv;
  const std::string path = arguments[1];
  std::string reason;
  std::unique_ptr<ObjectStore> store;
  const bool is_there = std::filesystem::exists(path);
  const Status opened =
      is_there
          ? ObjectStore::open("cpu:" + path + "?huge=off", {}, &store, &reason)
          : ObjectStore::create("cpu:" + path + "?huge=off&memory=" + kMemory, {}, &store, &reason);
  if (opened != Status::kOk) {
    std::cerr << reason << "\n";
    return 1;
  }
  std::vector<TenantConfig> configs(3);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    configs[i].number = static_cast<std::uint16_t>(i + 1);
    configs[i].permissions = kMayRead | kMayWrite | kMayErase | kMayAdminister;
  }
  SessionHost sessions(store.get(), configs, 2);
  RemoteServerOptions options;
  options.address = arguments[2];
  const auto secret = std::as_bytes(std::span(std::string_view(arguments[3])));
  options.secret.assign(secret.begin(), secret.end());
  options.transports = arguments[4];
  options.tenants = {1, 2};
  options.max_peers = 8;
  std::unique_ptr<RemoteServer> server;
  if (RemoteServer::start(sessions.context(), options, &server, &reason) != Status::kOk) {
    std::cerr << reason << "\n";
    return 1;
  }
  std::cout << server->port() << "\n" << std::flush;
  // What UCX has to say later on goes where somebody reads it.
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  std::array<char, 64> bytes;
  while (::read(STDIN_FILENO, bytes.data(), bytes.size()) > 0) {
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: remote_test_server POOL_PATH ADDRESS SECRET TRANSPORTS\n";
    return 2;
  }
  return serve({arguments, static_cast<std::size_t>(count)});
}
