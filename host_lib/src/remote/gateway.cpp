// nearkv-remote: serves a daemon's pool to other machines, as a client of that daemon.
//
// A process of its own: UCX is not hardened against its peers (README.md), so what a peer could
// break is this process, which may do no more than the daemon permits its user.
#include <signal.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "daemon/server/session_host.hpp"
#include "device/uri.hpp"
#include "nearkv/object_store.hpp"
#include "remote/remote_server.hpp"

namespace nearkv {
namespace {

constexpr int kUsage = 2;

struct Settings {
  std::string socket = "/run/nearkv/nearkv.sock";
  std::string secret_file;
  std::string window = "128MiB";
  RemoteServerOptions server;
};

int fail(const std::string& reason, int code) {
  std::cerr << "nearkv-remote: " << reason << "\n";
  return code;
}

int read_secret(const std::string& path, std::vector<std::byte>* secret) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(path + ": no such file; make one: head -c 32 /dev/urandom > " + path, kUsage);
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(path + ": others may use it; chmod 600 " + path, kUsage);
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  secret->assign(bytes.begin(), bytes.end());
  return 0;
}

/// The tenants that peers may use. What each may do is the daemon's to say; administering its pool
/// is not for other machines.
std::vector<TenantConfig> tenants_of(const RemoteServerOptions& options) {
  std::vector<TenantConfig> tenants;
  for (const std::uint16_t number : options.tenants) {
    tenants.emplace_back();
    tenants.back().number = number;
  }
  return tenants;
}

int serve(Settings settings) {
  if (parse_size(settings.window, &settings.server.window_bytes) != Status::kOk) {
    return fail("--window: '" + settings.window + "' is no size; give one like 128MiB", kUsage);
  }
  if (const int code = read_secret(settings.secret_file, &settings.server.secret)) return code;
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::string reason;
  std::unique_ptr<ObjectStore> store;
  ObjectStore::ClientOptions client;
  client.window_bytes = 2 << 20;  // Peers' windows are registered with the daemon.
  if (ObjectStore::connect(settings.socket, client, &store, &reason) != Status::kOk) {
    return fail(reason, 1);
  }
  // Of namespaces the daemon has limits of its own.
  SessionHost sessions(store.get(), tenants_of(settings.server),
                       std::max(std::thread::hardware_concurrency(), 1U));
  std::unique_ptr<RemoteServer> server;
  if (RemoteServer::start(sessions.context(), settings.server, &server, &reason) != Status::kOk) {
    return fail(reason, 1);
  }
  std::cout << "serving " << settings.socket << " at port " << server->port() << "\n" << std::flush;
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0) {
  }
  return 0;
}

int run(int count, char** arguments) {
  Settings settings;
  settings.server.address = "127.0.0.1:7717";
  CLI::App app("Serves a NearKV daemon's pool to other machines.", "nearkv-remote");
  app.add_option("--socket", settings.socket, "The daemon's")->capture_default_str();
  app.add_option("--listen", settings.server.address, "HOST:PORT")->capture_default_str();
  app.add_option("--secret", settings.secret_file,
                 "File of at least 16 bytes that peers must know, mode 600")
      ->required();
  app.add_option("--tenant", settings.server.tenants, "Tenants that peers may use")->required();
  app.add_option("--window", settings.window, "Most memory of one peer")->capture_default_str();
  app.add_option("--peers", settings.server.max_peers, "Most of them")->capture_default_str();
  app.add_option("--transports", settings.server.transports, "As in UCX_TLS");
  app.footer(
      "Its ports must be reachable only for machines that are trusted with this process:\n"
      "see host_lib/src/remote/README.md.\n\n"
      "EXIT STATUS\n  0  stopped by TERM or INT; 1  failed; 2  wrong options");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return serve(std::move(settings));
}

}  // namespace
}  // namespace nearkv

int main(int count, char** arguments) {
  try {
    return nearkv::run(count, arguments);
  } catch (...) {
    std::fputs("nearkv-remote: no memory is left\n", stderr);
    return 1;
  }
}
