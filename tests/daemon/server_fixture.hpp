// A daemon in this process, for tests that look at it from both sides.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "daemon/server/server.hpp"
#include "nearkv/object_store.hpp"
#include "support/clients.hpp"
#include "support/eventually.hpp"
#include "support/temporary_folder.hpp"

namespace nearkv::test {

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
  config.pools[0].size_bytes = 64 << 20;
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

}  // namespace nearkv::test
