// Devices in memory of the caller, and rows where they lie, on every device.
#include "nearkv/in_place.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/devices.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kTokens = 192;

Pool::Options raw_pool() {
  Pool::Options options = small_pool();
  options.shape.k_form = NKV_ROW_FORM_RAW;
  options.shape.v_form = NKV_ROW_FORM_RAW;
  return options;
}

/// Makes a pool with one sequence in a device.
std::unique_ptr<Pool> filled(std::shared_ptr<Device> device, const LayerRows& rows,
                             const Pool::Options& options = raw_pool()) {
  std::unique_ptr<Pool> pool = create_or_throw(std::move(device), options);
  EXPECT_EQ(pool->create_sequence(1), Status::kOk);
  EXPECT_EQ(append(pool.get(), 1, 0, rows, 0, kTokens), Status::kOk) << pool->last_error();
  return pool;
}

void expect_rows(const std::vector<RowsOfPage>& pages, const KvData& head) {
  ASSERT_EQ(pages.size(), kTokens / NKV_PAGE_TOKENS);
  constexpr std::size_t kPageBytes = NKV_PAGE_TOKENS * kDim * 2;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const std::size_t first = page * NKV_PAGE_TOKENS * kDim;
    ASSERT_EQ(pages[page].keys.size(), kPageBytes);
    ASSERT_EQ(pages[page].values.size(), kPageBytes);
    EXPECT_EQ(std::memcmp(pages[page].keys.data(), &head.keys[first], kPageBytes), 0);
    EXPECT_EQ(std::memcmp(pages[page].values.data(), &head.values[first], kPageBytes), 0);
  }
}

/// The first page of its sequence, in the memory of its device.
std::span<std::byte> first_page(const Pool& pool, Device& device) {
  std::uint64_t list = 0;
  std::uint32_t tokens = 0;
  EXPECT_EQ(pool.page_list(1, 0, 0, &list, &tokens), Status::kOk);
  nkv_page_entry entry{};
  std::memcpy(&entry, device.memory().data() + list, sizeof(entry));
  return device.memory().subspan(std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES);
}

class RowsInPlaceTest : public testing::TestWithParam<std::string> {};

TEST_P(RowsInPlaceTest, LieInTheDevicesMemory) {
  const std::shared_ptr<Device> device = open_or_throw(GetParam());
  const LayerRows rows(kTokens, 1);
  const std::unique_ptr<Pool> pool = filled(device, rows);
  pool->reset_stats();
  const std::span<std::byte> memory = device->memory();
  for (std::uint16_t head = 0; head < kHeads; ++head) {
    std::vector<RowsOfPage> pages;
    ASSERT_EQ(rows_in_place(*pool, 1, 0, head, &pages), Status::kOk) << pool->last_error();
    expect_rows(pages, rows.heads[head]);
    for (const RowsOfPage& page : pages) {
      EXPECT_GE(page.keys.data(), memory.data());
      EXPECT_LE(page.values.data() + page.values.size(), memory.data() + memory.size());
    }
  }
  EXPECT_EQ(pool->stats().commands, 0U);
  std::vector<RowsOfPage> none;
  EXPECT_EQ(rows_in_place(*pool, 1, 1, 0, &none), Status::kOk);
  EXPECT_TRUE(none.empty()) << "a layer without tokens";
  EXPECT_EQ(rows_in_place(*pool, 2, 0, 0, &none), Status::kNotFound);
  EXPECT_EQ(rows_in_place(*pool, 1, kLayers, 0, &none), Status::kNotFound);
}

TEST_P(RowsInPlaceTest, AreNoneInAPageOfAnotherForm) {
  const std::shared_ptr<Device> device = open_or_throw(GetParam());
  const LayerRows rows(kTokens, 1);
  const std::unique_ptr<Pool> pool = filled(device, rows);
  const std::shared_ptr<Device> compact_device = open_or_throw("cpu:?memory=16MiB");
  const std::unique_ptr<Pool> compact = filled(compact_device, rows, small_pool());
  const std::uint64_t page_bytes =
      compact->usage().page_bytes / (kHeads * kTokens / NKV_PAGE_TOKENS);
  std::ranges::copy(first_page(*compact, *compact_device).first(page_bytes),
                    first_page(*pool, *device).begin());
  std::vector<RowsOfPage> pages;
  EXPECT_EQ(rows_in_place(*pool, 1, 0, 0, &pages), Status::kBadPage) << pool->last_error();
}

INSTANTIATE_TEST_SUITE_P(Devices, RowsInPlaceTest, testing::ValuesIn(device_uris()), device_name);

/// Counts how often it was let go of.
std::shared_ptr<void> owner_that_counts(int* released) {
  return {released, [](void* count) { ++*static_cast<int*>(count); }};
}

TEST(LentMemoryTest, ADeviceUsesTheWholePiecesAndLetsGoOfTheOwner) {
  std::vector<std::byte> memory(16U << 20U, std::byte{0xA5});
  const LayerRows rows(kTokens, 2);
  for (const std::size_t offset : {0UL, 1UL, 63UL, 4095UL}) {
    SCOPED_TRACE(offset);
    std::ranges::fill(memory, std::byte{0xA5});
    int released = 0;
    {
      std::unique_ptr<Device> opened;
      std::string reason;
      const std::span<std::byte> lent = std::span(memory).subspan(offset, (15U << 20U) + 77);
      ASSERT_EQ(
          open_device_in(lent, owner_that_counts(&released), "cpu:?threads=1", &opened, &reason),
          Status::kOk)
          << reason;
      const std::shared_ptr<Device> device = std::move(opened);
      const std::span<std::byte> used = device->memory();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(used.data()) % kLentMemoryAlignment, 0U);
      EXPECT_EQ(used.size() % kLentMemoryAlignment, 0U);
      EXPECT_GT(used.size() + 2 * kLentMemoryAlignment, lent.size());
      const std::unique_ptr<Pool> pool = filled(device, rows);
      std::vector<RowsOfPage> pages;
      ASSERT_EQ(rows_in_place(*pool, 1, 0, 1, &pages), Status::kOk);
      expect_rows(pages, rows.heads[1]);
      EXPECT_EQ(released, 0);
      const auto is_whole = [](std::byte byte) { return byte == std::byte{0xA5}; };
      EXPECT_TRUE(std::all_of(memory.data(), used.data(), is_whole)) << "before what is used";
      EXPECT_TRUE(std::all_of(used.data() + used.size(), memory.data() + memory.size(), is_whole));
    }
    EXPECT_EQ(released, 1);
  }
}

TEST(LentMemoryTest, WhatCannotBeIsRefusedAndLetGoOf) {
  std::vector<std::byte> memory(1U << 20U);
  struct Refusal {
    std::string uri;
    std::size_t bytes;
    Status status;
    std::string reason;
  };
  for (const Refusal& refusal : {
           Refusal{"cpu:", 0, Status::kBadArgument, "lend more"},
           {"cpu:", 4095, Status::kBadArgument, "lend more"},
           {"cpu:/dev/shm/x", 1U << 20U, Status::kBadUri, "a path names memory"},
           {"cpu:?memory=1MiB", 1U << 20U, Status::kBadUri, "that the device maps"},
           {"cpu:?huge=on", 1U << 20U, Status::kBadUri, "that the device maps"},
           {"cpu:?speed=1", 1U << 20U, Status::kBadUri, "unknown option 'speed'"},
           {"model:", 1U << 20U, Status::kBadUri, "only cpu:"},
           {"cpu", 1U << 20U, Status::kBadUri, "expected SCHEME:"},
       }) {
    SCOPED_TRACE(refusal.uri);
    int released = 0;
    std::unique_ptr<Device> device;
    std::string reason;
    const std::span<std::byte> lent = std::span(memory).first(refusal.bytes);
    EXPECT_EQ(open_device_in(lent, owner_that_counts(&released), refusal.uri, &device, &reason),
              refusal.status);
    EXPECT_EQ(device, nullptr);
    EXPECT_NE(reason.find(refusal.reason), std::string::npos) << reason;
    EXPECT_EQ(released, 1);
  }
}

}  // namespace
}  // namespace nearkv::test
