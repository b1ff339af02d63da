// nearkv serve
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <iostream>

#include "cli/command.hpp"
#include "daemon/server/server.hpp"

namespace nearkv::cli {
namespace {

constexpr const char* kServeFooter =
    "DESCRIPTION\n"
    "  Owns a pool and serves it to the processes of this machine over a Unix socket. "
    "ServeOptions\n"
    "  override the file. Without a [[tenant]] in it, whoever runs the daemon may do everything,\n"
    "  as tenant 0, and nobody else anything. A pool that is not there yet is made.\n\n"
    "SIGNALS\n"
    "  TERM, INT  finish what is being copied, close, exit with 0\n"
    "  HUP        read quotas and the log's level from the file again; --log-level overrides it\n\n"
    "EXAMPLES\n"
    "  nearkv serve --pool /tmp/pool --size 1GiB --socket /tmp/nearkv.sock\n"
    "  nearkv serve --config /etc/nearkv/nearkv.toml\n"
    "  nearkv serve --config nearkv.toml --check-config\n\n"
    "EXIT STATUS\n"
    "  0  stopped by a signal, or the configuration is right; 1  failed; 2  wrong configuration\n";

struct ServeOptions {
  std::string config;
  bool check = false;
  std::string pool;
  std::string size;
  std::string socket;
  std::string log_level;
  std::string log_form;
  std::optional<std::uint16_t> metrics_port;
};

ServerConfig read(const ServeOptions& options) {
  ServerConfig config;
  std::string reason;
  if (!options.config.empty() && read_config(options.config, &config, &reason) != Status::kOk) {
    throw Failure{reason, kUsage};
  }
  const bool names_pool = !options.pool.empty() || !options.size.empty();
  if (names_pool && config.pools.size() > 1) {
    throw Failure{"--pool and --size are for one pool; the file has several", kUsage};
  }
  PoolConfig& pool = config.pools.front();
  if (!options.pool.empty()) pool.path = options.pool;
  if (!options.size.empty()) pool.size_bytes = require_size("--size", options.size);
  if (!options.socket.empty()) config.socket.path = options.socket;
  if (check_socket_path(config.socket.path, &reason) != Status::kOk) throw Failure{reason, kUsage};
  // Checked by the command line.
  const std::vector<std::string> levels = {"debug", "info", "warning", "error"};
  if (!options.log_level.empty()) {
    config.log.level =
        static_cast<LogLevel>(std::ranges::find(levels, options.log_level) - levels.begin());
  }
  if (!options.log_form.empty()) {
    config.log.form = options.log_form == "json" ? LogForm::kJson : LogForm::kText;
  }
  if (options.metrics_port) config.metrics.port = options.metrics_port;
  if (pool.path.empty() && pool.size_bytes == 0) {
    throw Failure{"no pool is named; give --pool PATH and --size SIZE, or set them in a file",
                  kUsage};
  }
  return config;
}

/// Waits for one of the signals, and tells systemd meanwhile that all is well.
int wait_for(const sigset_t& signals) {
  std::uint64_t watchdog_us = 0;
  const bool watched = ::sd_watchdog_enabled(0, &watchdog_us) > 0;
  while (true) {
    if (!watched) {
      int signal = 0;
      if (::sigwait(&signals, &signal) == 0) return signal;
      continue;
    }
    const std::uint64_t half_us = watchdog_us / 2;
    const timespec pause = {static_cast<time_t>(half_us / 1'000'000),
                            static_cast<long>(half_us % 1'000'000 * 1000)};
    const int signal = ::sigtimedwait(&signals, nullptr, &pause);
    if (signal > 0) return signal;
    ::sd_notify(0, "WATCHDOG=1");
  }
}

void reload(const ServeOptions& options, Server* server) {
  try {
    server->reload(read(options));
  } catch (const Failure& failure) {
    server->log().error("configuration not reloaded", {{"reason", failure.text}});
  }
}

void serve(const ServeOptions& options) {
  const ServerConfig config = read(options);
  if (options.check) {
    std::cout << "the configuration is right\n";
    return;
  }
  // Blocked before there are threads, so that all of them leave signals to this one.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  std::unique_ptr<Server> server;
  std::string reason;
  const Status status = Server::start(config, &server, &reason);
  if (status != Status::kOk) {
    throw Failure{reason.empty() ? std::string(message(status)) : reason,
                  status == Status::kBadArgument ? kUsage : kFailed};
  }
  ::sd_notify(0, "READY=1");
  while (wait_for(signals) == SIGHUP) {
    ::sd_notify(0, "RELOADING=1");
    if (options.config.empty()) {
      server->log().warning("nothing to reload", {{"reason", std::string("no --config")}});
    } else {
      reload(options, server.get());
    }
    ::sd_notify(0, "READY=1");
  }
  ::sd_notify(0, "STOPPING=1");
}

}  // namespace

void add_serve(CLI::App* app, int* exit) {
  CLI::App* const command = app->add_subcommand("serve", "Own a pool and serve it to processes");
  command->footer(kServeFooter);
  auto options = std::make_shared<ServeOptions>();
  command->add_option("--config", options->config, "A TOML file; see host_lib/share/nearkv.toml");
  command->add_flag("--check-config", options->check, "Check the configuration, and no more");
  command->add_option("--pool", options->pool, "The pool: a file or a DAX device");
  command->add_option("--size", options->size, "Size of a new pool, like 64GiB");
  command->add_option("--socket", options->socket, "Where clients connect");
  command->add_option("--metrics-port", options->metrics_port,
                      "Port for Prometheus; 0: one that is free, named in the log");
  command->add_option("--log-level", options->log_level, "Least important events to tell")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  command->add_option("--log-form", options->log_form, "Lines for people, or JSON")
      ->check(CLI::IsMember({"text", "json"}));
  command->callback([options, exit] {
    serve(*options);
    *exit = kDone;
  });
}

}  // namespace nearkv::cli
