// Listed pages and queries as the kernels take them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/types.hpp"
#include "page_list.hpp"
#include "query.hpp"

namespace nearkv::hls_test {

using Bursts = std::vector<kernels::Burst>;

/// Bytes as bursts, the last one filled up with zeros.
Bursts to_bursts(std::span<const std::byte> bytes);

/// The first `count` bytes of bursts.
std::vector<std::byte> to_bytes(std::span<const kernels::Burst> bursts, std::size_t count);

/// The pages of a list, one after the other, with what stands beside them in lists.
struct KernelList {
  explicit KernelList(const model::ListedPages& pages);

  [[nodiscard]] int count() const { return static_cast<int>(first_burst.size()); }

  Bursts memory;
  std::vector<std::uint32_t> first_burst;
  std::vector<std::uint64_t> visible;
};

/// Where a page of this list keeps an array; all pages have one shape.
kernels::ArrayPlace place_of(const model::ListedPages& pages, nkv_page_array array);

/// The rows that a query was decoded from, as far as they count, in binary32.
Bursts query_bursts(const model::Query& query, std::size_t channels);

}  // namespace nearkv::hls_test
