#include "support/finished_pages.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "support/page_shape.hpp"

namespace nearkv::test {
namespace {

std::uint32_t page_bytes(const std::byte* page) {
  nkv_page_header header{};
  std::memcpy(&header, page, sizeof(header));
  const nkv_page_shape shape = shape_of(header);
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  return layout.total_bytes;
}

/// A row over and over.
HostRows repeated(HostRows rows) {
  rows.token_stride_bytes = 0;
  return rows;
}

}  // namespace

Pages finished_pages(const Pool::Options& options, std::uint64_t sequence, std::uint16_t layer,
                     std::uint32_t first_token, const HostRows& keys, const HostRows& values,
                     std::uint32_t tokens) {
  std::unique_ptr<Device> opened;
  EXPECT_EQ(open_device("cpu:?memory=16MiB", &opened), Status::kOk);
  const std::shared_ptr<Device> device = std::move(opened);
  std::unique_ptr<Pool> pool;
  std::string reason;
  EXPECT_EQ(Pool::create(device, options, &pool, &reason), Status::kOk) << reason;
  if (pool == nullptr || pool->create_sequence(sequence) != Status::kOk ||
      pool->append(sequence, layer, repeated(keys), repeated(values), first_token) != Status::kOk ||
      pool->append(sequence, layer, keys, values, tokens) != Status::kOk) {
    ADD_FAILURE() << "no pages were built";
    return {};
  }
  const std::byte* const memory = device->memory().data();
  Pages pages;
  for (std::uint16_t head = 0; head < options.shape.kv_heads; ++head) {
    std::uint64_t list = 0;
    std::uint32_t present = 0;
    EXPECT_EQ(pool->page_list(sequence, layer, head, &list, &present), Status::kOk);
    for (std::uint32_t token = first_token; token < present; token += NKV_PAGE_TOKENS) {
      nkv_page_entry entry{};
      std::memcpy(&entry, memory + list + token / NKV_PAGE_TOKENS * sizeof(entry), sizeof(entry));
      const std::byte* const page = memory + std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
      pages.emplace_back(page, page + page_bytes(page));
    }
  }
  return pages;
}

std::vector<std::span<const std::byte>> spans_of(const Pages& pages) {
  return {pages.begin(), pages.end()};
}

}  // namespace nearkv::test
