// nkv_agilex_memory before a controller's adapter that puts reads and writes into one queue, as the
// example design's does: of a read and a write that it takes in one cycle, the read is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "Vnkv_agilex_memory.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using test::Random;

/// What slice and controller are like.
struct Manner {
  unsigned ask_pace = 8;     ///< The slice asks so often, of 8,
  unsigned answer_pace = 8;  ///< and takes answers.
  unsigned take_pace = 8;    ///< The controller takes accesses,
  bool takes_parts = false;  ///< address and data of a write not always at once.
  unsigned latency_cycles = 20;
};

/// An access as the slice knows it.
struct Access {
  bool is_near = false;
  std::uint16_t id = 0;
  std::uint64_t address = 0;
};

class AgilexMemory {
 public:
  explicit AgilexMemory(const Manner& manner, std::uint64_t seed = 1)
      : manner_(manner), random_(test::case_random(seed)) {
    rtl_.reset();
  }

  /// One cycle, in which the slice asks for reads, writes or both if it has none waiting.
  void cycle(bool reads, bool writes) {
    ask(reads, writes);
    drive_controller();
    rtl_.settle();
    sample_controller();
    sample_slice();
    rtl_.tick();
    ++now_;
  }

  /// Until nothing waits and all answers have come; false after `limit` cycles.
  [[nodiscard]] bool drain(unsigned limit = 4000) {
    while (limit-- > 0 && (read_ || write_ || !reads_.empty() || !writes_.empty())) {
      cycle(false, false);
    }
    return !read_ && !write_ && reads_.empty() && writes_.empty();
  }

  unsigned reads_taken = 0;
  unsigned writes_taken = 0;
  unsigned most_reads_on_end = 0;   ///< While a write waited,
  unsigned most_writes_on_end = 0;  ///< and the other way round.

 private:
  /// An access that the controller has.
  struct Queued {
    std::uint8_t tag;
    std::uint64_t address;
    std::uint64_t ready_at;
  };
  /// A write that waits: which parts of it were taken.
  struct Write {
    Access access;
    std::optional<std::uint8_t> tag;
    bool data_taken = false;
  };

  Access random_access() {
    return {.is_near = random_() % 2 == 0,
            .id = static_cast<std::uint16_t>(random_() % 4096),
            .address = random_() % (std::uint64_t{1} << 40U) * 64};
  }

  void ask(bool reads, bool writes) {
    Vnkv_agilex_memory& rtl = *rtl_;
    if (!read_ && reads && is_willing(random_, manner_.ask_pace)) read_ = random_access();
    if (!write_ && writes && is_willing(random_, manner_.ask_pace)) {
      write_ = {.access = random_access(), .tag = {}};
    }
    rtl.ar_valid_i = read_.has_value();
    if (read_) {
      rtl.ar_is_near_i = read_->is_near;
      rtl.ar_access_id_i = read_->id;
      rtl.ar_access_addr_i = read_->address;
    }
    rtl.aw_valid_i = write_ && !write_->tag;
    rtl.w_valid_i = write_ && !write_->data_taken;
    if (write_) {
      rtl.aw_is_near_i = write_->access.is_near;
      rtl.aw_access_id_i = write_->access.id;
      rtl.aw_access_addr_i = write_->access.address;
      rtl.w_strb_i = write_->access.address;
      rtl.w_data_i[0] = static_cast<std::uint32_t>(write_->access.address);
    }
    rtl.r_ready_i = is_willing(random_, manner_.answer_pace);
    rtl.b_ready_i = is_willing(random_, manner_.answer_pace);
  }

  void drive_controller() {
    Vnkv_agilex_memory& rtl = *rtl_;
    const bool takes = is_willing(random_, manner_.take_pace);
    rtl.from_memory_arready_i = takes;
    rtl.from_memory_awready_i = manner_.takes_parts ? is_willing(random_, 4) : takes;
    rtl.from_memory_wready_i = manner_.takes_parts ? is_willing(random_, 4) : takes;
    rtl.from_memory_rvalid_i = !asked_.empty() && asked_.front().ready_at <= now_;
    if (rtl.from_memory_rvalid_i) {
      rtl.from_memory_rid_i = asked_.front().tag;
      rtl.from_memory_rdata_i[0] = static_cast<std::uint32_t>(asked_.front().address);
    }
    rtl.from_memory_bvalid_i = !written_.empty() && written_.front().ready_at <= now_;
    if (rtl.from_memory_bvalid_i) rtl.from_memory_bid_i = written_.front().tag;
  }

  void sample_controller() {
    Vnkv_agilex_memory& rtl = *rtl_;
    const std::uint64_t ready_at = now_ + manner_.latency_cycles;
    const bool aw = rtl.to_memory_awvalid_o && rtl.from_memory_awready_i;
    const bool w = rtl.to_memory_wvalid_o && rtl.from_memory_wready_i;
    const bool ar = rtl.to_memory_arvalid_o && rtl.from_memory_arready_i;
    EXPECT_FALSE(rtl.to_memory_arvalid_o && (rtl.to_memory_awvalid_o || rtl.to_memory_wvalid_o))
        << "a read and a write at once";
    const bool has_begun = write_ && (write_->tag || write_->data_taken);
    EXPECT_FALSE(rtl.to_memory_arvalid_o && has_begun) << "a read between the parts of a write";
    EXPECT_EQ(ar, rtl.ar_valid_i && rtl.ar_ready_o);
    EXPECT_EQ(aw, rtl.aw_valid_i && rtl.aw_ready_o);
    EXPECT_EQ(w, rtl.w_valid_i && rtl.w_ready_o);
    if (ar) {
      EXPECT_EQ(rtl.to_memory_araddr_o, read_->address);
      EXPECT_TRUE(reads_.emplace(rtl.to_memory_arid_o, *read_).second) << "a tag twice";
      if (!aw && !w) asked_.push_back({rtl.to_memory_arid_o, read_->address, ready_at});
      count(&reads_taken, &reads_on_end_, &writes_on_end_);
      if (write_) most_reads_on_end = std::max(most_reads_on_end, reads_on_end_);
      read_.reset();
    }
    if (aw) {
      EXPECT_EQ(rtl.to_memory_awaddr_o, write_->access.address);
      EXPECT_TRUE(writes_.emplace(rtl.to_memory_awid_o, write_->access).second) << "a tag twice";
      write_->tag = rtl.to_memory_awid_o;
    }
    if (w) {
      EXPECT_EQ(rtl.to_memory_wdata_o[0], static_cast<std::uint32_t>(write_->access.address));
      EXPECT_EQ(rtl.to_memory_wstrb_o, write_->access.address);
      write_->data_taken = true;
    }
    if (!write_ || !write_->tag || !write_->data_taken) return;
    written_.push_back({*write_->tag, write_->access.address, ready_at});
    count(&writes_taken, &writes_on_end_, &reads_on_end_);
    if (read_) most_writes_on_end = std::max(most_writes_on_end, writes_on_end_);
    write_.reset();
  }

  static void count(unsigned* taken, unsigned* own_on_end, unsigned* others_on_end) {
    ++*taken;
    ++*own_on_end;
    *others_on_end = 0;
  }

  void sample_slice() {
    Vnkv_agilex_memory& rtl = *rtl_;
    EXPECT_EQ(rtl.r_valid_o, rtl.from_memory_rvalid_i);
    EXPECT_EQ(rtl.b_valid_o, rtl.from_memory_bvalid_i);
    if (rtl.r_valid_o && rtl.r_ready_i) {
      const Access& read = reads_.at(rtl.from_memory_rid_i);
      EXPECT_EQ(rtl.r_is_near_o, read.is_near);
      EXPECT_EQ(rtl.r_answer_id_o, read.id);
      EXPECT_EQ(rtl.r_answer_data_o[0], static_cast<std::uint32_t>(read.address));
      reads_.erase(rtl.from_memory_rid_i);
      asked_.pop_front();
    }
    if (rtl.b_valid_o && rtl.b_ready_i) {
      const Access& write = writes_.at(rtl.from_memory_bid_i);
      EXPECT_EQ(rtl.b_is_near_o, write.is_near);
      EXPECT_EQ(rtl.b_answer_id_o, write.id);
      writes_.erase(rtl.from_memory_bid_i);
      written_.pop_front();
    }
  }

  Simulation<Vnkv_agilex_memory> rtl_;
  Manner manner_;
  Random random_;
  std::uint64_t now_ = 0;
  std::optional<Access> read_;  ///< Waits to be taken.
  std::optional<Write> write_;
  std::map<unsigned, Access> reads_;  ///< Taken and not answered, by tag.
  std::map<unsigned, Access> writes_;
  std::deque<Queued> asked_;  ///< Of those, what the controller will answer.
  std::deque<Queued> written_;
  unsigned reads_on_end_ = 0;
  unsigned writes_on_end_ = 0;
};

TEST(AgilexMemoryTest, NoReadIsLostBesideWrites) {
  for (std::uint64_t number = 0; number < 27; ++number) {
    SCOPED_TRACE(test::case_name(number));
    AgilexMemory memory({.ask_pace = kPaces[number % 3],
                         .answer_pace = kPaces[number / 3 % 3],
                         .take_pace = kPaces[number / 9],
                         .takes_parts = number % 2 != 0},
                        number);
    for (unsigned i = 0; i < 3000; ++i) {
      memory.cycle(true, true);
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(memory.drain());
    EXPECT_GT(memory.reads_taken, 50U);
    EXPECT_GT(memory.writes_taken, 50U);
  }
}

TEST(AgilexMemoryTest, ReadsAndWritesTakeTurns) {
  AgilexMemory memory({});
  for (unsigned i = 0; i < 2000; ++i) memory.cycle(true, true);
  // No cycle is lost, and none has more than its half.
  EXPECT_EQ(memory.reads_taken, 1000U);
  EXPECT_EQ(memory.writes_taken, 1000U);
  EXPECT_EQ(memory.most_reads_on_end, 1U);
  EXPECT_EQ(memory.most_writes_on_end, 1U);
  EXPECT_TRUE(memory.drain());
}

TEST(AgilexMemoryTest, EachAloneHasEveryCycle) {
  AgilexMemory memory({});
  for (unsigned i = 0; i < 500; ++i) memory.cycle(true, false);
  EXPECT_EQ(memory.reads_taken, 500U);
  ASSERT_TRUE(memory.drain());
  for (unsigned i = 0; i < 500; ++i) memory.cycle(false, true);
  EXPECT_EQ(memory.writes_taken, 500U);
  EXPECT_TRUE(memory.drain());
}

// 256 reads and as many writes; the rest waits, and a write's data do not go ahead without its
// address.
TEST(AgilexMemoryTest, WithoutTagsNothingIsOffered) {
  AgilexMemory memory({.latency_cycles = 3000});
  for (unsigned i = 0; i < 1500; ++i) memory.cycle(true, true);
  EXPECT_EQ(memory.reads_taken, 256U);
  EXPECT_EQ(memory.writes_taken, 256U);
  EXPECT_TRUE(memory.drain(8000));
}

}  // namespace
}  // namespace nearkv::rtl_test
