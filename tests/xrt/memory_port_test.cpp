// AXI4 bursts of every kind against device memory, by a master whose pins this test moves.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "xrt/simulator/axi_memory_port.hpp"
#include "xrt/simulator/device_memory.hpp"
#include "xrt/simulator/kernel_model.hpp"

namespace nearkv::hw_emu {

// The simulator's library wants one; nothing here uses it.
std::unique_ptr<KernelModel> make_kernel_model(std::string_view, std::string_view) {
  return nullptr;
}

}  // namespace nearkv::hw_emu

namespace nearkv::test {
namespace {

using hw_emu::AxiMemoryPort;
using hw_emu::Bank;
using hw_emu::DeviceMemory;
using hw_emu::Ports;

constexpr std::size_t kDataBytes = 8;
constexpr unsigned kLatencyCycles = 5;
constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t kBankBytes = 0x4000;

enum Kind : std::uint8_t { kFixed, kIncrementing, kWrapping };

struct Pins {
  std::uint8_t arvalid = 0, arready = 0, arlen = 0, arsize = 0, arburst = 0;
  std::uint8_t awvalid = 0, awready = 0, awlen = 0, awsize = 0, awburst = 0;
  std::uint8_t rvalid = 0, rready = 1, rresp = 0, rlast = 0;
  std::uint8_t wvalid = 0, wready = 0, wstrb = 0, wlast = 0;
  std::uint8_t bvalid = 0, bready = 1, bresp = 0;
  std::uint16_t arid = 0, awid = 0, rid = 0, bid = 0;
  std::uint64_t araddr = 0, awaddr = 0, rdata = 0, wdata = 0;
};

class MemoryPortTest : public testing::Test {
 protected:
  struct Beat {
    std::uint64_t data;
    bool failed;
    bool last;
    std::uint16_t id;
  };

  MemoryPortTest() {
    std::vector<std::byte> image(kBankBytes);
    for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::byte>(i % 251);
    EXPECT_TRUE(memory_.write(kBase, image));
  }

  static std::uint8_t byte_at(std::uint64_t address) {
    return static_cast<std::uint8_t>((address - kBase) % 251);
  }
  static std::uint64_t word_at(std::uint64_t address) {
    std::uint64_t word = 0;
    for (unsigned i = 0; i < 8; ++i) word |= std::uint64_t{byte_at(address + i)} << 8 * i;
    return word;
  }

  /// A cycle; what the port shows in it.
  void cycle() {
    port_.drive();
    shown_ = pins_;
    port_.sample();
  }

  std::vector<Beat> read(std::uint64_t address, unsigned beats, unsigned size, Kind kind,
                         bool hesitates = false) {
    pins_.arvalid = 1;
    pins_.araddr = address;
    pins_.arlen = static_cast<std::uint8_t>(beats - 1);
    pins_.arsize = static_cast<std::uint8_t>(size);
    pins_.arburst = kind;
    pins_.arid = 0x5a;
    cycle();
    EXPECT_TRUE(shown_.arready);
    pins_.arvalid = 0;
    std::vector<Beat> all;
    for (unsigned i = 0; i < 1000 && all.size() < beats; ++i) {
      pins_.rready = !hesitates || i % 3 == 0;
      cycle();
      if (shown_.rvalid && shown_.rready) {
        all.push_back({shown_.rdata, shown_.rresp >= 2, shown_.rlast != 0, shown_.rid});
      }
    }
    EXPECT_EQ(all.size(), beats);
    return all;
  }

  /// Returns whether it was refused.
  bool write(std::uint64_t address, const std::vector<std::uint64_t>& words, std::uint8_t strobes,
             Kind kind = kIncrementing) {
    pins_.awvalid = 1;
    pins_.awaddr = address;
    pins_.awlen = static_cast<std::uint8_t>(words.size() - 1);
    pins_.awsize = 3;
    pins_.awburst = kind;
    pins_.awid = 0x77;
    cycle();
    pins_.awvalid = 0;
    for (std::size_t i = 0; i < words.size();) {
      pins_.wvalid = 1;
      pins_.wdata = words[i];
      pins_.wstrb = strobes;
      pins_.wlast = i + 1 == words.size();
      cycle();
      if (shown_.wready) ++i;
    }
    pins_.wvalid = 0;
    for (unsigned i = 0; i < 100; ++i) {
      cycle();
      if (shown_.bvalid) break;
    }
    EXPECT_TRUE(shown_.bvalid);
    EXPECT_EQ(shown_.bid, 0x77);
    return shown_.bresp >= 2;
  }

  std::uint64_t in_memory(std::uint64_t address) {
    std::uint64_t word = 0;
    EXPECT_TRUE(memory_.read(address, std::as_writable_bytes(std::span(&word, 1))));
    return word;
  }

  Ports make_ports() {
    Ports ports;
    ports.add("m_arvalid", pins_.arvalid, 1);
    ports.add("m_arready", pins_.arready, 1);
    ports.add("m_arlen", pins_.arlen, 8);
    ports.add("m_arsize", pins_.arsize, 3);
    ports.add("m_arburst", pins_.arburst, 2);
    ports.add("m_arid", pins_.arid, 10);
    ports.add("m_araddr", pins_.araddr, 64);
    ports.add("m_rvalid", pins_.rvalid, 1);
    ports.add("m_rready", pins_.rready, 1);
    ports.add("m_rresp", pins_.rresp, 2);
    ports.add("m_rlast", pins_.rlast, 1);
    ports.add("m_rid", pins_.rid, 10);
    ports.add("m_rdata", pins_.rdata, 64);
    ports.add("m_awvalid", pins_.awvalid, 1);
    ports.add("m_awready", pins_.awready, 1);
    ports.add("m_awlen", pins_.awlen, 8);
    ports.add("m_awsize", pins_.awsize, 3);
    ports.add("m_awburst", pins_.awburst, 2);
    ports.add("m_awid", pins_.awid, 10);
    ports.add("m_awaddr", pins_.awaddr, 64);
    ports.add("m_wvalid", pins_.wvalid, 1);
    ports.add("m_wready", pins_.wready, 1);
    ports.add("m_wdata", pins_.wdata, 64);
    ports.add("m_wstrb", pins_.wstrb, 8);
    ports.add("m_wlast", pins_.wlast, 1);
    ports.add("m_bvalid", pins_.bvalid, 1);
    ports.add("m_bready", pins_.bready, 1);
    ports.add("m_bresp", pins_.bresp, 2);
    ports.add("m_bid", pins_.bid, 10);
    return ports;
  }

  const std::array<Bank, 1> banks_{Bank{.tag = "DDR[0]", .base = kBase, .bytes = kBankBytes}};
  DeviceMemory memory_{banks_, nullptr};
  Pins pins_;
  Pins shown_;
  std::vector<std::string> told_;
  AxiMemoryPort port_{make_ports(), "m", &memory_, kLatencyCycles,
                      [this](const std::string& text) { told_.push_back(text); }};
};

TEST_F(MemoryPortTest, ReadsIncrementingBursts) {
  const auto beats = read(kBase + 0x100, 16, 3, kIncrementing);
  for (unsigned i = 0; i < 16; ++i) {
    EXPECT_EQ(beats[i].data, word_at(kBase + 0x100 + 8 * i)) << i;
    EXPECT_EQ(beats[i].last, i == 15);
    EXPECT_EQ(beats[i].id, 0x5a);
    EXPECT_FALSE(beats[i].failed);
  }
}

TEST_F(MemoryPortTest, BeatsStandUntilTheyAreTaken) {
  const auto beats = read(kBase, 8, 3, kIncrementing, true);
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(beats[i].data, word_at(kBase + 8 * i));
}

TEST_F(MemoryPortTest, NarrowBeatsComeOnTheirLanes) {
  const auto beats = read(kBase + 0x42, 4, 1, kIncrementing);  // Two bytes each.
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t address = kBase + 0x42 + 2 * i;
    EXPECT_EQ(beats[i].data >> 8 * (address % kDataBytes) & 0xffff, word_at(address) & 0xffff) << i;
  }
}

TEST_F(MemoryPortTest, WrapsAtTheSizeOfTheBurst) {
  const auto beats = read(kBase + 0x58, 4, 3, kWrapping);  // Of 32 bytes from 0x40 on.
  EXPECT_EQ(beats[0].data, word_at(kBase + 0x58));
  EXPECT_EQ(beats[1].data, word_at(kBase + 0x40));
  EXPECT_EQ(beats[3].data, word_at(kBase + 0x50));
}

TEST_F(MemoryPortTest, FixedBurstsStayWhereTheyAre) {
  for (const Beat& beat : read(kBase + 0x20, 3, 3, kFixed)) {
    EXPECT_EQ(beat.data, word_at(kBase + 0x20));
  }
}

TEST_F(MemoryPortTest, AnswersNoEarlierThanItsLatency) {
  pins_.arvalid = 1;
  pins_.araddr = kBase;
  pins_.arsize = 3;
  pins_.arburst = kIncrementing;
  cycle();
  pins_.arvalid = 0;
  unsigned cycles = 0;
  while (!shown_.rvalid && cycles < 100) {
    cycle();
    ++cycles;
  }
  EXPECT_EQ(cycles, kLatencyCycles);
}

TEST_F(MemoryPortTest, WritesWhereStrobesSay) {
  EXPECT_FALSE(write(kBase + 0x200, {0x1111111111111111, 0x2222222222222222}, 0x3c));
  EXPECT_EQ(in_memory(kBase + 0x200),
            (word_at(kBase + 0x200) & 0xffff00000000ffff) | 0x0000111111110000);
  EXPECT_EQ(in_memory(kBase + 0x208) >> 16 & 0xffffffff, 0x22222222U);
  EXPECT_EQ(in_memory(kBase + 0x210), word_at(kBase + 0x210));
  EXPECT_TRUE(told_.empty());
}

TEST_F(MemoryPortTest, RefusesBurstsAcrossPages) {
  const auto beats = read(kBase + 0xff8, 2, 3, kIncrementing);
  EXPECT_TRUE(beats[0].failed && beats[1].failed);
  EXPECT_TRUE(write(kBase + 0xff8, {1, 2}, 0xff));
  EXPECT_EQ(in_memory(kBase + 0xff8), word_at(kBase + 0xff8));
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_NE(told_[0].find("crosses a boundary of 4 KiB"), std::string::npos) << told_[0];
}

TEST_F(MemoryPortTest, RefusesWhatIsNotMemory) {
  EXPECT_TRUE(read(kBase + kBankBytes, 1, 3, kIncrementing)[0].failed);
  EXPECT_TRUE(read(kBase - 8, 1, 3, kIncrementing)[0].failed);
  EXPECT_TRUE(write(0, {1}, 0xff));
  ASSERT_EQ(told_.size(), 3U);
  EXPECT_NE(told_[0].find("m: a read at 0x14000 is in no bank"), std::string::npos) << told_[0];
}

TEST_F(MemoryPortTest, SaysWhenTheLastBeatIsMarkedElsewhere) {
  pins_.awvalid = 1;
  pins_.awaddr = kBase;
  pins_.awlen = 1;
  pins_.awsize = 3;
  pins_.awburst = kIncrementing;
  cycle();
  pins_.awvalid = 0;
  pins_.wvalid = 1;
  pins_.wlast = 1;
  while (!shown_.wready) cycle();
  ASSERT_FALSE(told_.empty());
  EXPECT_NE(told_[0].find("WLAST"), std::string::npos) << told_[0];
  pins_.bready = 1;
  while (!shown_.bvalid) cycle();
  EXPECT_EQ(pins_.bresp, 2) << "SLVERR";
}

TEST_F(MemoryPortTest, SharedBytesAreTheHostsToo) {
  const std::string path = memory_.share(kBase + 0x1000, 100);
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(in_memory(kBase + 0x1000), 0U);
  FILE* const file = std::fopen(path.c_str(), "r+");
  ASSERT_NE(file, nullptr);
  const std::uint64_t word = 0x0123456789abcdef;
  ASSERT_EQ(std::fwrite(&word, sizeof(word), 1, file), 1U);
  std::fclose(file);
  EXPECT_EQ(in_memory(kBase + 0x1000), word);
  EXPECT_EQ(in_memory(kBase + 0xff8), word_at(kBase + 0xff8));
  memory_.unshare(kBase + 0x1000);
  EXPECT_EQ(in_memory(kBase + 0x1000), 0U);
  EXPECT_TRUE(memory_.share(kBase + 0x1001, 100).empty());
  EXPECT_TRUE(memory_.share(kBase + kBankBytes, 100).empty());
}

}  // namespace
}  // namespace nearkv::test
