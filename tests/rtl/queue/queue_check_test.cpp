// nkv_queue_check against the contract's rule: a ring of a power of two entries in its limits,
// rings and window inside the memory, rings at whole commands, the window at whole grains.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <iterator>

#include "Vnkv_queue_check.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::uint64_t kCommandBytes = sizeof(nkv_append_command);
constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 32;

struct Registers {
  std::uint64_t sq_base = 0;
  std::uint64_t cq_base = kCommandBytes * NKV_MAX_RING_ENTRIES;
  std::uint64_t ring_entries = NKV_MIN_RING_ENTRIES;
  std::uint64_t window_base = NKV_PAGE_GRAIN_BYTES;
  std::uint64_t window_bytes = 1;
};

bool lies_in_memory(std::uint64_t base, std::uint64_t bytes) {
  return bytes <= kMemoryBytes && base <= kMemoryBytes - bytes;
}

bool is_acceptable(const Registers& registers) {
  const std::uint64_t entries = registers.ring_entries;
  if (!std::has_single_bit(entries) || entries < NKV_MIN_RING_ENTRIES ||
      entries > NKV_MAX_RING_ENTRIES) {
    return false;
  }
  for (const std::uint64_t base : {registers.sq_base, registers.cq_base}) {
    if (base % kCommandBytes != 0 || !lies_in_memory(base, entries * kCommandBytes)) return false;
  }
  return registers.window_base % NKV_PAGE_GRAIN_BYTES == 0 && registers.window_bytes != 0 &&
         lies_in_memory(registers.window_base, registers.window_bytes);
}

class QueueCheckTest : public ::testing::Test {
 protected:
  void expect_rule(const Registers& registers) {
    check_->memory_bytes_i = kMemoryBytes;
    check_->sq_base_i = registers.sq_base;
    check_->cq_base_i = registers.cq_base;
    check_->ring_entries_i = registers.ring_entries;
    check_->window_base_i = registers.window_base;
    check_->window_bytes_i = registers.window_bytes;
    check_.settle();
    const bool expected = is_acceptable(registers);
    accepted_ += expected ? 1 : 0;
    ASSERT_EQ(check_->acceptable_o != 0, expected)
        << std::hex << "rings " << registers.sq_base << " " << registers.cq_base << ", entries "
        << registers.ring_entries << ", window " << registers.window_base << " "
        << registers.window_bytes;
    if (!expected) return;
    ASSERT_EQ(std::uint64_t{1} << check_->ring_log2_o, registers.ring_entries);
  }

  unsigned accepted_ = 0;

 private:
  Simulation<Vnkv_queue_check> check_;
};

TEST_F(QueueCheckTest, TakesARingOfEachPowerOfTwoInTheLimitsAndNoOther) {
  for (std::uint64_t entries = 0; entries <= 2 * NKV_MAX_RING_ENTRIES; ++entries) {
    expect_rule({.ring_entries = entries});
  }
  for (unsigned bit = 16; bit < 64; ++bit) expect_rule({.ring_entries = std::uint64_t{1} << bit});
  EXPECT_EQ(accepted_, std::bit_width(unsigned{NKV_MAX_RING_ENTRIES / NKV_MIN_RING_ENTRIES}));
}

TEST_F(QueueCheckTest, HoldsRingsAndWindowToTheMemoryAtEachEdge) {
  constexpr std::uint64_t kRingBytes = kCommandBytes * NKV_MIN_RING_ENTRIES;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const std::uint64_t places[] = {0,
                                  1,
                                  kCommandBytes / 2,
                                  kCommandBytes,
                                  NKV_PAGE_GRAIN_BYTES / 2,
                                  NKV_PAGE_GRAIN_BYTES,
                                  kMemoryBytes - kRingBytes,
                                  kMemoryBytes - kRingBytes + kCommandBytes,
                                  kMemoryBytes - NKV_PAGE_GRAIN_BYTES,
                                  kMemoryBytes,
                                  kAll - kCommandBytes + 1,
                                  kAll};
  for (const std::uint64_t place : places) {
    expect_rule({.sq_base = place});
    expect_rule({.cq_base = place});
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{NKV_PAGE_GRAIN_BYTES},
          NKV_PAGE_GRAIN_BYTES + std::uint64_t{1}, kMemoryBytes, kMemoryBytes + 1, kAll}) {
      expect_rule({.window_base = place, .window_bytes = bytes});
    }
  }
  EXPECT_GT(accepted_, 8u);
}

TEST_F(QueueCheckTest, JudgesAnyRegisters) {
  test::Random random = test::case_random(1);
  const auto any = [&random](std::uint64_t unit) {
    const std::uint64_t near_end = kMemoryBytes - unit * test::pick(random, 0, 70);
    const std::uint64_t choices[] = {unit * test::pick(random, 0, 1000), near_end,
                                     near_end + random() % unit, random()};
    return choices[test::pick(random, 0, std::size(choices) - 1)];
  };
  for (unsigned i = 0; i < 200000; ++i) {
    const std::uint64_t entries = std::uint64_t{1} << test::pick(random, 2, 17);
    expect_rule({.sq_base = any(kCommandBytes),
                 .cq_base = any(kCommandBytes),
                 .ring_entries = random() % 8 == 0 ? random() : entries,
                 .window_base = any(NKV_PAGE_GRAIN_BYTES),
                 .window_bytes = any(1)});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted_, 1000u);
}

}  // namespace
}  // namespace nearkv::rtl_test
