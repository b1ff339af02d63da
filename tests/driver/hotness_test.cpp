// The hot list of the near-data monitor as the driver tells perf, against traffic that is known.
#include "card/hotness.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "removable_card.hpp"
#include "support/bench_device.hpp"
#include "support/kv_data.hpp"
#include "support/page_commands.hpp"

namespace nearkv::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWindowBase = 1 << 20;  // Of a BenchDevice.
constexpr std::uint64_t kUnit = 4096;
constexpr const char* kPmu = "nearkv0_hotness";

/// How often each unit was listed, by its number; all entries have the count `threshold`.
using Listed = std::map<std::uint64_t, unsigned>;

/// Each unit of 4 KiB that commands read.
nkv_card_hotness near_monitor() {
  nkv_card_hotness wanted{};
  wanted.monitor = NKV_CARD_MONITOR_NEAR;
  wanted.track = 6;
  wanted.unit_log2 = 12;
  wanted.epoch_scale = 5;
  wanted.epoch_value = 10;
  wanted.threshold = 1;
  return wanted;
}

class HotnessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_card()) GTEST_SKIP() << kNoCard;
    if (read_pmu_number(kPmu, "caps/entries") == 0U) GTEST_SKIP() << "it has no monitors";
    // Device addresses are those of the first window.
    ASSERT_EQ(card_attribute("windows"), "");
  }

  void open(HotnessWatch* watch, std::uint32_t threshold, std::uint64_t unit_bytes = kUnit) {
    threshold_ = threshold;
    unit_bytes_ = unit_bytes;
    // By the card's clock, which here hardly moves: one epoch lasts for all of a test.
    const HotnessOptions options{.unit_bytes = unit_bytes, .threshold = threshold, .epoch = 10s};
    ASSERT_EQ(watch->open("nearkv0", options, &reason_), Status::kOk) << reason_;
  }

  /// What is listed once there are `expected` entries, or after a time; and what comes after.
  Listed take(HotnessWatch* watch, std::size_t expected) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    std::vector<HotUnit> units;
    do {
      EXPECT_EQ(watch->take(&units, &reason_), Status::kOk) << reason_;
    } while (units.size() < expected && std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * NKV_CARD_LAG_MS));
    EXPECT_EQ(watch->take(&units, &reason_), Status::kOk) << reason_;
    Listed listed;
    for (const HotUnit& unit : units) {
      EXPECT_EQ(unit.address % unit_bytes_, 0U);
      EXPECT_EQ(unit.count, threshold_);
      ++listed[unit.address / unit_bytes_];
    }
    return listed;
  }

  std::string reason_;
  std::uint32_t threshold_ = 0;
  std::uint64_t unit_bytes_ = 0;
};

/// Has a file read units of device memory.
class TouchTest : public HotnessTest {
 protected:
  void SetUp() override {
    HotnessTest::SetUp();
    if (IsSkipped()) return;
    file_.emplace(8 << 20);
    ASSERT_EQ(file_->start(file_->whole_window()), 0);
  }

  /// An access each to units from `first` on, and to unit 0: a page list of one entry at a unit's
  /// end, and the page that it names, which is none.
  void touch(std::uint64_t first, std::uint64_t count = 1) {
    nkv_pages_command command{};
    command.opcode = NKV_OPCODE_SCRUB;
    command.count = 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      command.source = (first + i + 1) * kUnit - sizeof(nkv_page_entry);
      file_->submit(command);
      const bool is_full = (i + 1) % (CardFile::kEntries - 1) == 0;
      if (is_full || i + 1 == count) {
        ASSERT_NE(file_->take().status, NKV_STATUS_OK);
      }
    }
  }

  std::optional<CardFile> file_;
};

Listed each_of(std::uint64_t first, std::uint64_t count) {
  Listed listed;
  for (std::uint64_t i = 0; i < count; ++i) listed[first + i] = 1;
  return listed;
}

TEST_F(HotnessTest, ListsThePagesThatCommandsReadMost) {
  BenchDevice bench("linux:/dev/nearkv0?memory=8MiB");
  const KvData data = make_kv(Shape::kTopics, 6 * NKV_PAGE_TOKENS, 128, 128, 5);
  const StoredList list = append(&bench, data, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  nkv_pages_command scrub = pages_command(list, NKV_OPCODE_SCRUB);
  // A simulated unit that has just begun clears its counters as commands run, or slowly.
  while (bench.device().read_csr(NKV_REG_TOTAL_BUSY_TICKS(0)) < 40'000) {
    ASSERT_EQ(bench.run(scrub).status, NKV_STATUS_OK);
  }
  constexpr std::array<unsigned, 6> kScrubs = {1, 4, 16, 1, 1, 4};
  for (const std::uint64_t unit_bytes : {kUnit, 2 * kUnit}) {
    // A run is 16 bursts at most, so that a unit is read in `least` or more; arrays of a page that
    // begin in a unit make it a few more, not four times as many.
    const auto least = static_cast<unsigned>(unit_bytes / (16 * NKV_BURST_BYTES));
    HotnessWatch watch;
    open(&watch, 16 * least, unit_bytes);
    for (std::size_t page = 0; page < kScrubs.size(); ++page) {
      scrub.source = list.page_list + page * sizeof(nkv_page_entry);
      scrub.count = 1;
      for (unsigned i = 0; i < kScrubs.at(page); ++i) {
        ASSERT_EQ(bench.run(scrub).status, NKV_STATUS_OK);
      }
    }
    const std::uint64_t begin =
        kWindowBase +
        std::uint64_t{bench.at<nkv_page_entry>(list.page_list)[2].page} * NKV_PAGE_GRAIN_BYTES;
    const std::uint64_t end = begin + list.page_bytes;
    const std::uint64_t first = (begin + unit_bytes - 1) / unit_bytes;
    const std::uint64_t last = end / unit_bytes;
    Listed listed = take(&watch, last - first);
    // Those at its ends, which it shares, may be hot too.
    for (const std::uint64_t shared : {begin / unit_bytes, end / unit_bytes}) {
      if (shared < first || shared >= last) listed.erase(shared);
    }
    EXPECT_EQ(listed, each_of(first, last - first));
    EXPECT_FALSE(watch.has_lost());
  }
}

TEST_F(TouchTest, ListsExactlyTheUnitsThatReachTheThreshold) {
  constexpr unsigned kThreshold = 5;
  HotnessWatch watch;
  open(&watch, kThreshold);
  Listed expected{{0, 1}};
  for (unsigned unit = 1; unit <= 40; ++unit) {
    const unsigned times = 1 + unit % 8;
    for (unsigned i = 0; i < times; ++i) touch(unit);
    if (times >= kThreshold) expected[unit] = 1;
  }
  EXPECT_EQ(take(&watch, expected.size()), expected);
  EXPECT_FALSE(watch.has_lost());
}

TEST_F(TouchTest, DeliversMoreThanTheMonitorsListHolds) {
  const std::uint64_t units = read_pmu_number(kPmu, "caps/entries").value_or(0) + 9;
  HotnessWatch watch;
  open(&watch, 1);
  touch(1, units);
  EXPECT_EQ(take(&watch, units + 1), each_of(0, units + 1));
  EXPECT_FALSE(watch.has_lost());
}

/// Perf treats an event on processor 0 in its own way when its records say TRUNCATED.
FileDescriptor open_on_last_processor(const nkv_card_hotness& wanted) {
  const auto config = std::bit_cast<PerfConfig>(wanted);
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = static_cast<std::uint32_t>(read_pmu_number(kPmu, "type").value_or(0));
  attributes.config = config[0];
  attributes.config1 = config[1];
  attributes.config2 = config[2];
  attributes.disabled = 1;
  const long last = ::sysconf(_SC_NPROCESSORS_ONLN) - 1;
  return FileDescriptor(
      static_cast<int>(::syscall(SYS_perf_event_open, &attributes, -1, last, -1, 0)));
}

TEST_F(TouchTest, KeepsWhatFindsNoRoomAndSaysWhatIsLost) {
  const FileDescriptor event = open_on_last_processor(near_monitor());
  ASSERT_TRUE(event);
  const Mapping ring(event.get(), 0, 9 * CardFile::kPage);
  ASSERT_TRUE(ring);
  auto* const control = reinterpret_cast<perf_event_mmap_page*>(ring.bytes().data());
  control->aux_offset = ring.bytes().size();
  control->aux_size = CardFile::kPage;
  const Mapping aux(event.get(), control->aux_offset, control->aux_size);
  ASSERT_TRUE(aux);
  ASSERT_EQ(enable_perf_event(event, &reason_), Status::kOk);
  const auto delivered = [&](std::uint64_t wanted) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    std::uint64_t count = 0;
    do {
      EXPECT_EQ(::read(event.get(), &count, sizeof(count)), ssize_t{sizeof(count)});
    } while (count < wanted && std::chrono::steady_clock::now() < deadline);
    return count;
  };
  // Perf leaves a byte free.
  const std::uint64_t room = control->aux_size / sizeof(std::uint64_t) - 1;
  const std::uint64_t held = read_pmu_number(kPmu, "caps/entries").value_or(0) - 1;
  touch(1, room);
  EXPECT_EQ(delivered(room), room);
  // One waits in the list already; one more than it holds.
  touch(1 + room, held);
  std::this_thread::sleep_for(std::chrono::milliseconds(4 * NKV_CARD_LAG_MS));
  EXPECT_EQ(delivered(0), room);
  for (const std::uint64_t count : {2 * room, 3 * room, room + held}) {
    std::atomic_ref(control->aux_tail).store(control->aux_head);
    EXPECT_EQ(delivered(count), count);
  }
  // An event more has perf look which go on: those do of which entries were lost, too.
  nkv_card_hotness elsewhere = near_monitor();
  elsewhere.monitor = NKV_CARD_MONITOR_HOST;
  const FileDescriptor host = open_on_last_processor(elsewhere);
  ASSERT_TRUE(host);
  ASSERT_EQ(enable_perf_event(host, &reason_), Status::kOk);
  std::atomic_ref(control->aux_tail).store(control->aux_head);
  constexpr std::uint64_t kMore = 20;
  touch(1 + room + held, kMore);
  EXPECT_EQ(delivered(room + held + kMore), room + held + kMore);
  const auto* const records = ring.bytes().data() + control->data_offset;
  bool is_told = false;
  for (std::uint64_t at = 0; at < control->data_head;) {
    struct {
      perf_event_header header;
      std::uint64_t offset, bytes, flags;
    } record{};
    std::memcpy(&record, records + at, sizeof(record));
    EXPECT_EQ(record.header.type, std::uint32_t{PERF_RECORD_AUX});
    is_told |= (record.flags & PERF_AUX_FLAG_PARTIAL) != 0;
    at += record.header.size;
  }
  EXPECT_TRUE(is_told);
}

TEST_F(TouchTest, HasMonitorsForOneEach) {
  HotnessWatch watch;
  open(&watch, 1);
  EXPECT_EQ(HotnessWatch().open("nearkv0", {}, &reason_), Status::kBusy);
  HotnessWatch host;
  ASSERT_EQ(host.open("nearkv0", {.monitor = NKV_CARD_MONITOR_HOST, .threshold = 1}, &reason_),
            Status::kOk);
  touch(1);
  // Who was refused has changed nothing.
  EXPECT_EQ(take(&watch, 2).size(), 2U);
  // No host goes past this engine: its memory is the guest's, too.
  std::vector<HotUnit> units;
  EXPECT_EQ(host.take(&units, &reason_), Status::kOk);
  EXPECT_TRUE(units.empty());
}

TEST_F(TouchTest, ForgetsWithItsOwner) {
  {
    HotnessWatch watch;
    open(&watch, 2);
    touch(1);
  }
  HotnessWatch watch;
  open(&watch, 2);
  touch(1);
  EXPECT_EQ(take(&watch, 0), Listed());
}

TEST_F(HotnessTest, RefusesWhatAMonitorCannotDo) {
  const nkv_card_hotness good = near_monitor();
  const auto status_of = [this](const nkv_card_hotness& wanted) {
    FileDescriptor event;
    return open_perf_event(kPmu, std::bit_cast<PerfConfig>(wanted), &event, &reason_);
  };
  std::vector<nkv_card_hotness> bad;
  const auto with = [&](auto change) {
    bad.push_back(good);
    change(bad.back());
  };
  with([](auto& wanted) { wanted.monitor = 2; });
  with([](auto& wanted) { wanted.track = 0; });
  with([](auto& wanted) { wanted.track = 7; });
  with([](auto& wanted) { wanted.unit_log2 = 0; });
  with([](auto& wanted) { wanted.unit_log2 = 11; });
  with([](auto& wanted) { wanted.unit_log2 = 255; });
  with([](auto& wanted) { wanted.down_sampling = 16; });
  with([](auto& wanted) { wanted.mode = 1; });  // A sketch is never always on.
  with([](auto& wanted) { wanted.mode = 2; });
  with([](auto& wanted) { wanted.randomize = 2; });
  with([](auto& wanted) { wanted.epoch_scale = 0; });
  with([](auto& wanted) { wanted.epoch_scale = 6; });
  with([](auto& wanted) { wanted.epoch_value = 0; });
  with([](auto& wanted) { wanted.epoch_value = 4096; });
  with([](auto& wanted) { wanted.reserved = 1; });
  with([](auto& wanted) { wanted.reserved_2 = 1; });
  with([](auto& wanted) { wanted.threshold = 1 << 16; });
  with([](auto& wanted) { wanted.threshold = 1 << 15; });  // Its counters end before.
  with([](auto& wanted) { wanted.first_block = 64; });
  with([](auto& wanted) { wanted.blocks = 65; });
  with([](auto& wanted) { wanted.first_block = wanted.blocks = ~0U; });
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(status_of(bad[i]), Status::kBadArgument) << i;
  }
  EXPECT_EQ(status_of(good), Status::kOk) << reason_;
  HotnessWatch watch;
  EXPECT_EQ(watch.open("nearkv0", {.unit_bytes = 1024}, &reason_), Status::kBadArgument);
  EXPECT_EQ(reason_, "nearkv0_hotness: a unit has 4096 8192 bytes");
}

TEST_F(TouchTest, WatchesOnlyBlocksThatItShould) {
  HotnessWatch watch;
  nkv_card_hotness elsewhere = near_monitor();
  elsewhere.first_block = 1;
  elsewhere.blocks = 2;
  FileDescriptor event;
  ASSERT_EQ(open_perf_event(kPmu, std::bit_cast<PerfConfig>(elsewhere), &event, &reason_),
            Status::kOk);
  ASSERT_EQ(enable_perf_event(event, &reason_), Status::kOk);
  touch(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(4 * NKV_CARD_LAG_MS));
  event = FileDescriptor();
  // What it had listed would come first.
  open(&watch, 1);
  touch(2);
  EXPECT_EQ(take(&watch, 2), (Listed{{0, 1}, {2, 1}}));
}

TEST_F(TouchTest, EndsWithTheCard) {
  HotnessWatch watch;
  open(&watch, 1);
  touch(1);
  EXPECT_EQ(take(&watch, 2).size(), 2U);
  file_.reset();
  const RemovableCard card;
  card.remove();
  std::vector<HotUnit> units;
  EXPECT_EQ(watch.take(&units, &reason_), Status::kNoDevice);
  EXPECT_EQ(HotnessWatch().open("nearkv0", {}, &reason_), Status::kNoDevice);
  card.bring_back();
  HotnessWatch other;
  EXPECT_EQ(other.open("nearkv0", {}, &reason_), Status::kOk) << reason_;
}

}  // namespace
}  // namespace nearkv::test
