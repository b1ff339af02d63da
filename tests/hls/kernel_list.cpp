#include "kernel_list.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace nearkv::hls_test {

namespace {

constexpr std::size_t kBurst = NKV_BURST_BYTES;

}  // namespace

Bursts to_bursts(std::span<const std::byte> bytes) {
  Bursts bursts((bytes.size() + kBurst - 1) / kBurst);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int at = static_cast<int>(i % kBurst);
    kernels::set_part<8>(bursts[i / kBurst], at, std::to_integer<unsigned>(bytes[i]));
  }
  return bursts;
}

std::vector<std::byte> to_bytes(std::span<const kernels::Burst> bursts, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = kernels::part_of<8>(bursts[i / kBurst], static_cast<int>(i % kBurst));
    bytes[i] = static_cast<std::byte>(part.to_uint());
  }
  return bytes;
}

KernelList::KernelList(const model::ListedPages& pages) {
  for (const model::ListedPage& listed : pages) {
    first_burst.push_back(static_cast<std::uint32_t>(memory.size()));
    const Bursts page = to_bursts(listed.page.bytes());
    memory.insert(memory.end(), page.begin(), page.end());
    visible.push_back(listed.visible);
  }
}

kernels::ArrayPlace place_of(const model::ListedPages& pages, nkv_page_array array) {
  const nkv_page_layout& layout = pages[0].page.layout();
  return {.first = layout.offset[array] / NKV_BURST_BYTES,
          .bursts = (layout.bytes[array] + NKV_BURST_BYTES - 1) / NKV_BURST_BYTES};
}

Bursts query_bursts(const model::Query& query, std::size_t channels) {
  std::vector<float> elements;
  for (std::size_t row = 0; row < query.rows(); ++row) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double value = query.row(row)[c];
      elements.push_back(static_cast<float>(std::ldexp(value, query.exponent(row) - 149)));
    }
  }
  return to_bursts(std::as_bytes(std::span(elements)));
}

}  // namespace nearkv::hls_test
