// The xclbin that we write, as XRT's own API reads it.
#include "xrt/xclbin/xclbin.hpp"

#include <experimental/xrt_xclbin.h>
#include <gtest/gtest.h>
#include <xclbin.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xrt/xclbin/description.hpp"

namespace nearkv::test {
namespace {

using hw_emu::Description;
using hw_emu::make_xclbin;

constexpr const char* kDescription = R"({
  "platform": "nearkv_emulation_1", "memory_latency_cycles": 40,
  "banks": [{"tag": "DDR[0]", "base": 0, "bytes": 4294967296},
            {"tag": "DDR[1]", "base": 4294967296, "bytes": 1073741824},
            {"tag": "HOST[0]", "base": 17592186044416, "bytes": 1048576}],
  "kernels": [
    {"name": "scale", "protocol": "ap_ctrl_chain", "control": "s_axi_control", "clock": "ap_clk",
     "register_bytes": 4096, "masters": ["m_axi_in", "m_axi_out"],
     "arguments": [
       {"name": "in", "type": "const float*", "offset": 16, "bytes": 8, "port": "m_axi_in",
        "banks": ["DDR[1]", "HOST[0]"]},
       {"name": "factor", "type": "float", "offset": 28, "bytes": 4},
       {"name": "out", "type": "float*", "offset": 36, "bytes": 8, "port": "m_axi_out",
        "banks": ["DDR[0]", "DDR[1]"]}],
     "compute_units": [{"name": "scale_1", "base": 25231360}, {"name": "scale_2", "base": 25296896}]},
    {"name": "free", "protocol": "ap_ctrl_none", "control": "s_axi_control", "clock": "ap_clk",
     "register_bytes": 4096, "masters": [], "arguments": [],
     "compute_units": [{"name": "free_1", "base": 25165824}]}],
  "keys": {"nearkv.abi": "1.3"}
})";

/// With one place changed.
std::string with(const std::string& old, const std::string& other) {
  std::string text = kDescription;
  text.replace(text.find(old), old.size(), other);
  return text;
}

xrt::xclbin read_back(const std::string& bytes) {
  return xrt::xclbin(std::vector<char>(bytes.begin(), bytes.end()));
}

class XclbinTest : public testing::Test {
 protected:
  const std::string bytes_ =
      make_xclbin(Description::parse(kDescription), {{"behav_waveform/xsim/simulator", "elf"}});
  const xrt::xclbin xclbin_ = read_back(bytes_);
};

TEST_F(XclbinTest, NamesItsPlatform) {
  EXPECT_EQ(xclbin_.get_xsa_name(), "nearkv_emulation_1");
  EXPECT_EQ(xclbin_.get_target_type(), xrt::xclbin::target_type::hw_emu);
}

TEST_F(XclbinTest, HasBanksAsDescribed) {
  const auto mems = xclbin_.get_mems();
  ASSERT_EQ(mems.size(), 3U);
  EXPECT_EQ(mems[0].get_tag(), "DDR[0]");
  EXPECT_EQ(mems[0].get_size_kb(), 4U << 20);
  EXPECT_EQ(mems[1].get_base_address(), std::uint64_t{1} << 32);
  EXPECT_EQ(mems[2].get_tag(), "HOST[0]");
  EXPECT_TRUE(mems[2].get_used());
}

TEST_F(XclbinTest, HasKernelsWithTheirArguments) {
  const auto kernels = xclbin_.get_kernels();
  ASSERT_EQ(kernels.size(), 2U);
  const auto scale = xclbin_.get_kernel("scale");
  ASSERT_EQ(scale.get_num_args(), 3U);
  EXPECT_EQ(scale.get_arg(0).get_name(), "in");
  EXPECT_EQ(scale.get_arg(0).get_host_type(), "const float*");
  EXPECT_EQ(scale.get_arg(1).get_offset(), 28U);
  EXPECT_EQ(scale.get_arg(1).get_size(), 4U);
  EXPECT_EQ(scale.get_arg(2).get_offset(), 36U);
}

TEST_F(XclbinTest, ConnectsEachComputeUnitToItsOwnBanks) {
  const auto bank = [](const xrt::xclbin::ip& unit, std::int32_t argument) {
    return unit.get_arg(argument).get_mems().at(0).get_tag();
  };
  const auto first = xclbin_.get_ip("scale:scale_1");
  const auto second = xclbin_.get_ip("scale:scale_2");
  EXPECT_EQ(first.get_base_address(), 25231360U);
  EXPECT_EQ(bank(first, 0), "DDR[1]");
  EXPECT_EQ(bank(second, 0), "HOST[0]");
  EXPECT_EQ(bank(first, 2), "DDR[0]");
  EXPECT_EQ(bank(second, 2), "DDR[1]");
}

TEST_F(XclbinTest, StatesControlProtocols) {
  using Control = xrt::xclbin::ip::control_type;
  EXPECT_EQ(xclbin_.get_ip("scale:scale_1").get_control_type(), Control::chain);
  EXPECT_EQ(xclbin_.get_ip("free:free_1").get_control_type(), Control::none);
}

TEST_F(XclbinTest, CarriesKeys) {
  const auto* const top = xclbin_.get_axlf();
  const auto* const section = ::xclbin::get_axlf_section(top, KEYVALUE_METADATA);
  ASSERT_NE(section, nullptr);
  const std::string json(bytes_, section->m_sectionOffset, section->m_sectionSize);
  EXPECT_NE(json.find(R"("key":"nearkv.abi","value":"1.3")"), std::string::npos) << json;
}

TEST_F(XclbinTest, IsTheSameForTheSameContents) {
  const auto description = Description::parse(kDescription);
  EXPECT_EQ(make_xclbin(description, {{"behav_waveform/xsim/simulator", "elf"}}), bytes_);
  const auto other =
      read_back(make_xclbin(description, {{"behav_waveform/xsim/simulator", "ELF"}}));
  EXPECT_NE(other.get_uuid().to_string(), xclbin_.get_uuid().to_string());
}

TEST(DescriptionTest, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{", "not a description"},
      {with("\"banks\": [", "\"banks\": \"none\", \"others\": ["), "not a description"},
      {with("\"base\": 4294967296", "\"base\": 4294963200"), "overlap"},
      {with("\"bytes\": 1048576", "\"bytes\": 1000"), "whole pages"},
      {with("DDR[0]", "DDR[0123456789ab]"), "1 to 15 characters"},
      {with("ap_ctrl_chain", "ap_ctrl_dance"), "no control protocol"},
      {with("\"port\": \"m_axi_in\"", "\"port\": \"m_axi_inn\""), "no AXI4 master"},
      {with("[\"DDR[1]\", \"HOST[0]\"]", "[\"DDR[1]\"]"), "for each compute unit"},
      {with("[\"DDR[1]\", \"HOST[0]\"]", "[\"DDR[1]\", \"HBM[0]\"]"), "HBM[0]"},
      {with("\"offset\": 28", "\"offset\": 4096"), "outside the control registers"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      (void)Description::parse(text);
      ADD_FAILURE() << "taken: " << expected;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nearkv::test
