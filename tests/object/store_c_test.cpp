// nearkv_store.h as a C program uses it (store_c_use.c).
#include <gtest/gtest.h>

#include "support/temporary_file.hpp"

/// Null, or what went wrong and where.
extern "C" const char* nearkv_store_c_use(const char* uri);

namespace nearkv::test {
namespace {

TEST(StoreCApiTest, EveryFunctionDoesWhatItsHeaderSays) {
  const TemporaryFile file("objects");
  const std::string uri = "cpu:" + file.path().string() + "?memory=32MiB&huge=off";
  const char* const failure = nearkv_store_c_use(uri.c_str());
  EXPECT_EQ(failure, nullptr) << failure;
}

}  // namespace
}  // namespace nearkv::test
