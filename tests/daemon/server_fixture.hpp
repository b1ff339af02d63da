// A daemon in this process, for tests that look at it from both sides.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "daemon/server/server.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv::test {

/// A folder that is gone with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nearkv_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr std::uint8_t kMayAll = kMayRead | kMayWrite | kMayErase | kMayAdminister;

/// Tenant `number` for whoever runs the tests.
inline TenantConfig own_tenant(std::uint16_t number, std::uint8_t permissions = kMayAll) {
  TenantConfig tenant;
  tenant.number = number;
  tenant.name = "tenant-" + std::to_string(number);
  tenant.uids = {::geteuid()};
  tenant.permissions = permissions;
  return tenant;
}

/// What a small daemon needs; tenants 1 and 2 are the tester's.
inline ServerConfig small_config(const TemporaryFolder& folder) {
  ServerConfig config;
  config.pool.size_bytes = 64 << 20;
  config.socket.path = folder.file("socket");
  config.scrub_bytes_per_s = 0;
  config.log.level = LogLevel::kError;
  config.tenants = {own_tenant(1), own_tenant(2)};
  return config;
}

inline std::unique_ptr<Server> start_server(const ServerConfig& config) {
  std::unique_ptr<Server> server;
  std::string reason;
  EXPECT_EQ(Server::start(config, &server, &reason), Status::kOk) << reason;
  return server;
}

inline std::unique_ptr<ObjectStore> connect_to(const std::string& socket,
                                               std::uint64_t window_bytes = 64 << 20) {
  ObjectStore::ClientOptions options;
  options.window_bytes = window_bytes;
  options.patience = std::chrono::seconds(20);
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(ObjectStore::connect(socket, options, &store, &reason), Status::kOk) << reason;
  return store;
}

inline Namespace namespace_of(std::uint16_t tenant, const std::string& model = "model") {
  Namespace name;
  name.tenant = tenant;
  name.model = model;
  return name;
}

/// Until `done()`; false if it takes longer than any machine needs.
template <typename Done>
bool eventually(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace nearkv::test
