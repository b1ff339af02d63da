// Clients of a daemon, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "nearkv/object_store.hpp"

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

}  // namespace nearkv::test
