// What a failed call of the C API leaves in its caller's buffer: always a line of text.
#include "c_api/report.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

namespace nearkv::test {
namespace {

/// A buffer that nobody has written to, and how a body's failure is reported in it.
struct Reported {
  template <typename Body>
  explicit Reported(const Body& body) {
    std::array<char, 256> buffer;
    buffer.fill('?');
    buffer.back() = '\0';
    error = report(buffer.data(), buffer.size() - 1, body);
    text = buffer.data();
  }
  int error = 0;
  std::string text;
};

TEST(ReportTest, AReasonIsHandedOut) {
  const Reported failed([](std::string* why) {
    *why = "no card in the slot";
    return Status::kNoDevice;
  });
  EXPECT_EQ(failed.error, -ENODEV);
  EXPECT_EQ(failed.text, "no card in the slot");
}

TEST(ReportTest, AStatusExplainsItselfWhereNobodyElseDid) {
  const Reported silent([](std::string*) { return Status::kNoDevice; });
  EXPECT_EQ(silent.text, message(Status::kNoDevice));
  const Reported unexpected([](std::string*) -> Status { throw std::runtime_error("boo"); });
  EXPECT_EQ(unexpected.error, to_errno(Status::kInternal));
  EXPECT_EQ(unexpected.text, message(Status::kInternal));
  const Reported poor([](std::string*) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(poor.error, -ENOMEM);
  EXPECT_EQ(poor.text, message(Status::kOutOfMemory));
}

TEST(ReportTest, SuccessLeavesTheBufferAlone) {
  const Reported done([](std::string*) { return Status::kOk; });
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.text.front(), '?');
}

}  // namespace
}  // namespace nearkv::test
