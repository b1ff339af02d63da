// The devices that parameterised suites run on, and how tests open devices and make pools.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nearkv/pool.hpp"

namespace nearkv::test {

/// URIs from NEARKV_TEST_DEVICES (separated by spaces); cpu: and model: if that is not set.
inline std::vector<std::string> device_uris() {
  const char* const chosen = std::getenv("NEARKV_TEST_DEVICES");
  std::istringstream words(chosen != nullptr ? chosen
                                             : "cpu:?memory=192MiB&threads=2 model:?memory=192MiB");
  std::vector<std::string> uris;
  for (std::string uri; words >> uri;) uris.push_back(uri);
  return uris;
}

/// The same device, which compares pages with their checksums each time that it reads them.
inline std::string comparing_always(const std::string& uri) {
  if (!uri.starts_with("cpu:")) return uri;
  return uri + (uri.find('?') == std::string::npos ? "?" : "&") + "verify=always";
}

/// The scheme as a test name.
inline std::string device_name(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

/// Throws the reason where there is no such device.
inline std::unique_ptr<Device> open_or_throw(const std::string& uri) {
  std::unique_ptr<Device> device;
  std::string reason;
  if (open_device(uri, &device, &reason) != Status::kOk) throw std::runtime_error(reason);
  return device;
}

/// Throws the reason where there is no such pool.
inline std::unique_ptr<Pool> create_or_throw(std::shared_ptr<Device> device,
                                             const Pool::Options& options) {
  std::unique_ptr<Pool> pool;
  std::string reason;
  if (Pool::create(std::move(device), options, &pool, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  return pool;
}

}  // namespace nearkv::test
