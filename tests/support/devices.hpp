// The devices that parameterised suites run on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

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

/// The scheme as a test name.
inline std::string device_name(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

}  // namespace nearkv::test
