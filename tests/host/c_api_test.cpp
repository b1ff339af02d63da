// nearkv.h as a C program uses it (c_api_use.c), on every device.
#include <gtest/gtest.h>

#include "support/devices.hpp"

/// Null, or what went wrong and where.
extern "C" const char* nearkv_c_api_use(const char* uri);

namespace nearkv::test {
namespace {

class CApiTest : public testing::TestWithParam<std::string> {};

TEST_P(CApiTest, EveryFunctionDoesWhatItsHeaderSays) {
  const char* const failure = nearkv_c_api_use(GetParam().c_str());
  EXPECT_EQ(failure, nullptr) << failure;
}

INSTANTIATE_TEST_SUITE_P(Devices, CApiTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
