#include "stores.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <stdexcept>
#include <thread>

#include "daemon/server/server.hpp"

namespace nearkv::bench {
namespace {

std::filesystem::path make_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "nearkv_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return pattern;
}

[[noreturn]] void serve(const std::string& socket, std::uint64_t pool_bytes) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ServerConfig config;
  config.workers = 1;  // Beside the one thread of memcpy and of a store in this process.
  config.pools[0].size_bytes = pool_bytes;
  config.socket.path = socket;
  config.clients.window_bytes = 1ULL << 32;
  config.scrub_bytes_per_s = 0;
  config.log.level = LogLevel::kError;
  std::unique_ptr<Server> server;
  std::string reason;
  if (Server::start(config, &server, &reason) != Status::kOk) ::_exit(1);
  int signal = 0;
  ::sigwait(&signals, &signal);
  server.reset();
  ::_exit(0);
}

/// All threads of a process.
void pin(pid_t process, const cpu_set_t& cores) {
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    ::sched_setaffinity(std::stoi(task.path().filename().string()), sizeof(cores), &cores);
  }
}

}  // namespace

OwnCores::OwnCores(pid_t child) : child_(child) {
  ::sched_getaffinity(0, sizeof(all_), &all_);
  if (CPU_COUNT(&all_) < 2) return;
  int first = 0;
  while (!CPU_ISSET(first, &all_)) ++first;
  cpu_set_t others = all_;
  CPU_CLR(first, &others);
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(first, &own);
  pin(::getpid(), own);
  pin(child_, others);
}

OwnCores::~OwnCores() {
  pin(::getpid(), all_);
  pin(child_, all_);
}

ChildDaemon::ChildDaemon(std::uint64_t pool_bytes) : folder_(make_folder()) {
  process_ = ::fork();
  if (process_ == 0) serve(socket(), pool_bytes);
  for (int wait = 0; wait < 1000 && !std::filesystem::exists(socket()); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

ChildDaemon::~ChildDaemon() {
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
  std::filesystem::remove_all(folder_);
}

void Contestant::set_up(std::size_t memory_bytes) {
  if (store->open_namespace({}, &space) != Status::kOk ||
      store->allocate(memory_bytes, &memory) != Status::kOk) {
    throw std::runtime_error("a store cannot be set up");
  }
  std::ranges::fill(memory, std::byte{1});
}

Contestant local_contestant(std::uint64_t pool_bytes, std::size_t memory_bytes) {
  Contestant made;
  std::string reason;
  const std::string uri = "cpu:?memory=" + std::to_string(pool_bytes);
  ObjectStore::Options options;
  options.eviction = "lru";
  if (ObjectStore::create(uri, options, &made.store, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  made.set_up(memory_bytes);
  return made;
}

Contestant daemon_contestant(const std::string& socket, std::size_t memory_bytes) {
  Contestant made;
  std::string reason;
  ObjectStore::ClientOptions options;
  options.window_bytes = 2 * memory_bytes;
  if (ObjectStore::connect(socket, options, &made.store, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  made.set_up(memory_bytes);
  return made;
}

std::vector<std::byte> key_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  std::vector<std::byte> key(32);
  for (std::byte& byte : key) byte = static_cast<std::byte>(random());
  return key;
}

void run(Contestant* contestant, const Job& job) {
  JobResult result;
  if (contestant->store->run(job, &result) != Status::kOk || !result.all_ok()) {
    throw std::runtime_error("a job failed");
  }
}

}  // namespace nearkv::bench
