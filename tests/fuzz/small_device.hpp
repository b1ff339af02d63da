// A cpu: device of a few pages, put back to the same state before every input.
#pragma once

#include <algorithm>
#include <vector>

#include "support/page_commands.hpp"

namespace nearkv::test {

class SmallDevice {
 public:
  SmallDevice() {
    const KvData data = make_kv(Shape::kTopics, 160, 64, 48, 5);
    bench_.allocate(4096);  // So that address 0 is no page.
    list_ = append(&bench_, data, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_RAW);
    commands_ = page_commands(&bench_, list_, make_queries(data, 3, 3.0, 6));
    before_.assign(bench_.window().begin(), bench_.window().end());
  }

  [[nodiscard]] BenchDevice& bench() { return bench_; }
  [[nodiscard]] const StoredList& list() const { return list_; }
  [[nodiscard]] const std::vector<PageCommand>& commands() const { return commands_; }
  [[nodiscard]] std::uint64_t page_at(std::size_t index) {
    const auto* const entry = bench_.at<nkv_page_entry>(list_.page_list) + index;
    return std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
  }
  void restore() { std::ranges::copy(before_, bench_.window().begin()); }

 private:
  BenchDevice bench_{"cpu:?memory=2MiB&threads=2&huge=off"};
  StoredList list_;
  std::vector<PageCommand> commands_;
  std::vector<std::byte> before_;
};

}  // namespace nearkv::test
