// A list of pages on the engine, for commands to read.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "support/bench_device.hpp"
#include "support/kv_data.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv::bench {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A list on the engine, and how long it took to build it.
struct ListBench {
  test::BenchDevice engine;
  std::uint8_t form;
  test::KvData data;
  test::StoredList list;
  double append_seconds = 0;

  ListBench(const std::string& uri, std::uint32_t tokens, std::uint8_t row_form)
      : engine(uri),
        form(row_form),
        data(test::make_kv(test::Shape::kTopics, tokens, 128, 128, 7)) {
    engine.allocate(4096);  // So that address 0 is no page.
    const auto begin = std::chrono::steady_clock::now();
    list = test::append(&engine, data, form, form);
    append_seconds = seconds_since(begin);
  }

  /// What APPEND read and wrote, but for the page list.
  [[nodiscard]] std::uint64_t append_bursts() const {
    const std::uint64_t row_bytes = 2 * (list.head_dim + list.value_dim);
    return list.pages() * (NKV_PAGE_TOKENS * row_bytes + list.page_bytes) / NKV_BURST_BYTES;
  }

  [[nodiscard]] std::uint64_t page_bursts() const {
    return list.page_bytes / NKV_BURST_BYTES * list.pages();
  }

  /// What the host saw, on a device that has one.
  [[nodiscard]] emulator::HostRecord host() {
    emulator::HostRecord record{};
    std::ranges::copy(engine.device().memory().last(sizeof(record)),
                      std::as_writable_bytes(std::span(&record, 1)).begin());
    return record;
  }
};

}  // namespace nearkv::bench
