// Clients of a daemon or of another machine's store, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>

#include "nearkv/object_store.hpp"
#include "support/eventually.hpp"

namespace nearkv::test {

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

/// A server whose clients have died keeps neither their threads nor their descriptors.
inline void expect_nothing_left_of_clients(pid_t server) {
  const std::filesystem::path process = "/proc/" + std::to_string(server);
  const auto entries = [&](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(process / folder), {});
  };
  EXPECT_TRUE(eventually([&] { return entries("task") < 10; })) << "threads of dead clients stay";
  EXPECT_LT(entries("fd"), 64);
}

}  // namespace nearkv::test
