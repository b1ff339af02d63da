// nearkv_remote_bench: large objects in a store of another process, moved by UCX.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <stdexcept>

#include "cases.hpp"
#include "daemon/server/session_host.hpp"
#include "remote/remote_server.hpp"
#include "remote/remote_store.hpp"

namespace {

using namespace nearkv;

std::vector<std::byte> secret() { return std::vector<std::byte>(32, std::byte{7}); }

/// Serves a store, tells its port through the pipe, and waits to be killed.
[[noreturn]] void serve(std::uint64_t pool_bytes, const std::string& transports, int pipe) {
  bench::Contestant local = bench::local_contestant(pool_bytes, 1);
  TenantConfig tenant;
  tenant.permissions = kMayRead | kMayWrite | kMayErase;
  SessionHost sessions(local.store.get(), {tenant}, 2);
  RemoteServerOptions options;
  options.address = "127.0.0.1:0";
  options.secret = secret();
  options.tenants = {tenant.number};
  options.window_bytes = 1ULL << 32;
  options.transports = transports;
  std::unique_ptr<RemoteServer> server;
  std::string reason;
  if (RemoteServer::start(sessions.context(), options, &server, &reason) != Status::kOk) ::_exit(1);
  const std::uint16_t port = server->port();
  if (::write(pipe, &port, sizeof(port)) != sizeof(port)) ::_exit(1);
  while (true) ::pause();
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Rates of large objects in a store behind UCX, beside memcpy.");
  bench::Options options;
  options.working_set_bytes = std::size_t{64} << 20;
  std::string json_path;
  std::string transports = "tcp";
  std::size_t working_set_mib = options.working_set_bytes >> 20;
  app.add_option("--json", json_path, "Write the results to this file");
  app.add_option("--rounds", options.rounds, "Measured runs of each contender")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--transports", transports, "As in UCX_TLS")->capture_default_str();
  app.add_option("--working-set-mib", working_set_mib, "Objects together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.working_set_bytes = working_set_mib << 20;
  const std::uint64_t pool_bytes = 2 * options.working_set_bytes + (128ULL << 20);

  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) serve(pool_bytes, transports, pipe[1]);
  ::close(pipe[1]);
  std::uint16_t port = 0;
  if (::read(pipe[0], &port, sizeof(port)) != sizeof(port)) {
    throw std::runtime_error("the server did not start");
  }
  RemoteStoreOptions remote_options;
  remote_options.address = "127.0.0.1:" + std::to_string(port);
  remote_options.secret = secret();
  remote_options.window_bytes = 2 * options.window_bytes;
  remote_options.transports = transports;
  bench::Contestant remote;
  std::string reason;
  if (connect_remote(remote_options, &remote.store, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  remote.set_up(options.window_bytes);
  bench::Report report(options.rounds);
  bench::compare_rates(options, "remote", {{"remote", &remote}}, &report);
  remote.store.reset();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return bench::save_results(json_path, report.results());
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
