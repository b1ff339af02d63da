// The hotness monitors of the engine, by the registers that a CXL driver uses: one lists what the
// host accesses often, the other what commands read often.
#include <set>

#include "device_pair.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kUnitBytes = 4096;
constexpr std::uint64_t kWindowBase = 1 << 20;  // Of a BenchDevice.

/// A CHMU block among the device's registers (CXL specification; words of the block).
class Monitor {
 public:
  Monitor(Device* device, std::uint32_t base) : device_(device), base_(base) {}

  /// Counts reads and writes from now on; false if the unit does not come up.
  bool enable(std::uint32_t threshold) {
    write(kRanges, 1);  // The first 256 MiB.
    // Epochs of 4,095 s, units of 4 KiB, each access.
    write(kConf1, std::uint64_t{0xFFF} << 52 | std::uint64_t{5} << 48 | 12);
    constexpr std::uint64_t kReadsAndWrites = 6;
    constexpr std::uint64_t kEnable = 1 << 16;
    write(kConf0, std::uint64_t{threshold} << 32 | kEnable | kOverflowInterrupt | kReadsAndWrites);
    std::uint64_t epoch = 0;
    for (unsigned i = 0; i < 1000; ++i) {
      const std::uint64_t status = read(kStatus);
      if ((status & 1) != 0 && (status >> 16 & 0xFFFF) == 0) return true;
      static_cast<void>(device_->wait(&epoch, std::chrono::milliseconds(1)));
    }
    return false;
  }

  /// Units of the hot list.
  std::set<std::uint64_t> units() {
    std::set<std::uint64_t> units;
    const std::uint64_t list = kInstance + read(kCap3) / 8;
    for (std::uint64_t i = 0; i < (read(kHeadTail) >> 16 & 0xFFFF); ++i) {
      units.insert(read(static_cast<std::uint32_t>(list + i)) >> 16);
    }
    return units;
  }

  [[nodiscard]] bool is_overflown() { return (read(kStatus) >> 40 & 1) != 0; }
  [[nodiscard]] std::uint64_t common() { return read(0); }

 private:
  static constexpr std::uint32_t kInstance = 2;
  static constexpr std::uint32_t kCap3 = 5;
  static constexpr std::uint32_t kConf0 = 10;
  static constexpr std::uint32_t kConf1 = 11;
  static constexpr std::uint32_t kStatus = 14;
  static constexpr std::uint32_t kHeadTail = 15;
  static constexpr std::uint32_t kRanges = 16;
  static constexpr std::uint64_t kOverflowInterrupt = 1 << 9;

  std::uint64_t read(std::uint32_t word) { return device_->read_csr(base_ + 8 * word); }
  void write(std::uint32_t word, std::uint64_t value) {
    device_->write_csr(base_ + 8 * word, value);
  }

  Device* device_;
  std::uint32_t base_;
};

TEST(RtlHotnessTest, TheNearMonitorListsThePagesThatCommandsRead) {
  BenchDevice engine("rtl:?memory=8MiB&latency=20");
  engine.allocate(4096);
  const KvData data = make_kv(Shape::kTopics, 6 * NKV_PAGE_TOKENS, 128, 128, 5);
  const StoredList list = append(&engine, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  Monitor monitor(&engine.device(), NKV_REG_NEAR_HOTNESS(0U));
  EXPECT_EQ(monitor.common(), 0x101U);  // Version 1, one instance.
  ASSERT_TRUE(monitor.enable(16));
  // Pages 2 and 3 are read often, the others once.
  nkv_pages_command scrub = pages_command(list, NKV_OPCODE_SCRUB);
  ASSERT_EQ(engine.run(scrub).status, NKV_STATUS_OK);
  EXPECT_TRUE(monitor.units().empty());
  scrub.source += 2 * sizeof(nkv_page_entry);
  scrub.count = 2;
  for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(engine.run(scrub).status, NKV_STATUS_OK);
  std::set<std::uint64_t> hot;
  for (const unsigned page : {2U, 3U}) {
    const auto* const entry = engine.at<nkv_page_entry>(list.page_list) + page;
    const std::uint64_t begin = kWindowBase + std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
    // Units that lie whole in the page: at least four runs each time. Others are read once,
    // in at most nine.
    for (std::uint64_t unit = (begin + kUnitBytes - 1) / kUnitBytes;
         (unit + 1) * kUnitBytes <= begin + list.page_bytes; ++unit) {
      hot.insert(unit);
    }
  }
  const std::set<std::uint64_t> listed = monitor.units();
  EXPECT_TRUE(std::ranges::includes(listed, hot));
  // Of others at most those at the pages' ends, and that of the list of pages.
  EXPECT_LE(listed.size(), hot.size() + 4);
}

TEST(RtlHotnessTest, TheHostMonitorListsWhatTheHostUsesAndInterruptsWhenItsListIsFull) {
  BenchDevice engine("rtl:?memory=8MiB&latency=20&host=80");
  Device& device = engine.device();
  Monitor monitor(&device, NKV_REG_HOST_HOTNESS(0U));
  Monitor near(&device, NKV_REG_NEAR_HOTNESS(0U));
  ASSERT_TRUE(near.enable(1));
  ASSERT_TRUE(monitor.enable(16));
  const std::uint64_t end = device.memory().size();
  std::uint64_t epoch = 0;
  const auto run = [&] {
    for (unsigned i = 0; i < 20; ++i) {
      static_cast<void>(device.wait(&epoch, std::chrono::milliseconds(1)));
    }
  };
  std::set<std::uint64_t> units;
  for (unsigned i = 0; i < 50 && units.size() < emulator::kHostBytes / kUnitBytes - 1; ++i) {
    run();
    units = monitor.units();
  }
  for (std::uint64_t unit = (end - emulator::kHostBytes) / kUnitBytes; unit < end / kUnitBytes - 1;
       ++unit) {
    EXPECT_TRUE(units.contains(unit)) << unit;
  }
  EXPECT_TRUE(near.units().empty());
  // In the end every unit of memory was read often enough, and the list holds 1,023.
  const auto asks = [&] {
    return (device.read_csr(NKV_REG_INTERRUPT_STATUS) &
            NKV_REG_INTERRUPT_STATUS_HOST_HOTNESS_MASK) != 0;
  };
  const bool asked = asks();
  if (!monitor.is_overflown()) {
    EXPECT_FALSE(asked);
  }
  for (unsigned i = 0; i < 200 && !monitor.is_overflown(); ++i) run();
  EXPECT_TRUE(monitor.is_overflown());
  EXPECT_TRUE(asks());
}

}  // namespace
}  // namespace nearkv::test
