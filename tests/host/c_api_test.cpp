// nearkv.h as a C program uses it (c_api_use.c), on every device.
#include <gtest/gtest.h>

#include "support/devices.hpp"
#include "support/offers.hpp"

/// Compresses pages with that codec. Null, or what went wrong and where.
extern "C" const char* nearkv_c_api_use(const char* uri, std::uint8_t codec);

namespace nearkv::test {
namespace {

class CApiTest : public testing::TestWithParam<std::string> {};

TEST_P(CApiTest, EveryFunctionDoesWhatItsHeaderSays) {
  const std::uint8_t codec = best_codec(*open_or_throw(GetParam()));
  const char* const failure = nearkv_c_api_use(GetParam().c_str(), codec);
  EXPECT_EQ(failure, nullptr) << failure;
}

INSTANTIATE_TEST_SUITE_P(Devices, CApiTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
