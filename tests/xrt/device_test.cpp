// The device xrt: as it is opened, and what it refuses.
#include "nearkv/device.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "nkv_abi.h"
#include "support/temporary_folder.hpp"
#include "xrt/xclbin/description.hpp"
#include "xrt/xclbin/xclbin.hpp"

namespace nearkv::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class XrtDeviceTest : public testing::Test {
 protected:
  /// The engine's own xclbin with one place of its description changed, and no simulator in it.
  std::string write_xclbin(const std::string& old, const std::string& other) {
    std::string text = read_file(NEARKV_XRT_DESCRIPTION);
    const std::size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    text.replace(at, old.size(), other);
    const std::string path = folder_.file("changed.xclbin");
    std::ofstream(path, std::ios::binary)
        << hw_emu::make_xclbin(hw_emu::Description::parse(text), {});
    return path;
  }

  void expect_refused(const std::string& uri, const std::string& why) {
    std::unique_ptr<Device> device;
    std::string reason;
    EXPECT_EQ(open_device(uri, &device, &reason), Status::kNoDevice) << uri;
    EXPECT_NE(reason.find(why), std::string::npos) << reason;
  }

  TemporaryFolder folder_;
  const std::string abi_ = std::to_string(NKV_ABI_MAJOR) + "." + std::to_string(NKV_ABI_MINOR);
};

TEST_F(XrtDeviceTest, ArgumentsThatAreWrong) {
  for (const char* uri : {"xrt:card0", "xrt:0?memory=1000", "xrt:0?memory=17GiB", "xrt:0?speed=11",
                          "xrt:0?xclbin=", "xrt:-1"}) {
    expect_refused(uri, "takes the number of a card");
  }
}

TEST_F(XrtDeviceTest, AnXclbinThatIsNotThere) {
  expect_refused("xrt:0?xclbin=/nonexistent/none.xclbin", "there is no xclbin");
}

TEST_F(XrtDeviceTest, AnXclbinThatIsNone) {
  const std::string path = folder_.file("text.xclbin");
  std::ofstream(path) << "no xclbin";
  expect_refused("xrt:0?xclbin=" + path, "xclbin");
}

TEST_F(XrtDeviceTest, AnXclbinOfAnotherAbi) {
  const std::string other = std::to_string(NKV_ABI_MAJOR + 1) + ".0";
  const std::string path = write_xclbin(abi_, other);
  expect_refused("xrt:0?xclbin=" + path, "has ABI " + other + ", this library " + abi_);
}

TEST_F(XrtDeviceTest, AnXclbinThatDoesNotSayItsAbi) {
  const std::string path = write_xclbin("nearkv.abi", "nearkv.other");
  expect_refused("xrt:0?xclbin=" + path, "has ABI none");
}

TEST_F(XrtDeviceTest, AnXclbinOfAnotherKernel) {
  const std::string path = write_xclbin("\"name\": \"nkv\"", "\"name\": \"vadd\"");
  expect_refused("xrt:0?xclbin=" + path, "holds no kernel nkv");
}

TEST_F(XrtDeviceTest, OpensAgainAndIsNew) {
  for (int i = 0; i < 2; ++i) {
    std::unique_ptr<Device> device;
    std::string reason;
    ASSERT_EQ(open_device("xrt:0?memory=8MiB", &device, &reason), Status::kOk) << reason;
    EXPECT_EQ(device->read_csr(NKV_REG_ID), NKV_ABI_ID);
    EXPECT_EQ(device->read_csr(NKV_REG_MEMORY_BYTES), 8U << 20);
    ASSERT_EQ(device->memory().size(), 8U << 20);
    EXPECT_EQ(device->memory()[12345], std::byte{0});
    EXPECT_EQ(device->read_csr(NKV_REG_SQ_BASE(3)), 0U);
    device->write_csr(NKV_REG_SQ_BASE(3), 0x123456789000);
    EXPECT_EQ(device->read_csr(NKV_REG_SQ_BASE(3)), 0x123456789000U);
    device->memory()[12345] = std::byte{7};
  }
}

}  // namespace
}  // namespace nearkv::test
