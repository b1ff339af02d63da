// A cpu: device of a few pages, put back to the same state before every input.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/page_commands.hpp"

namespace nearkv::test {

class SmallDevice {
 public:
  SmallDevice() {
    const KvData data = make_kv(Shape::kTopics, 160, 64, 48, 5);
    bench_.allocate(4096);  // So that address 0 is no page.
    list_ = append(&bench_, data, NKV_ROW_FORM_DELTA4, NKV_ROW_FORM_RAW);
    for (const std::uint8_t codec : {NKV_CODEC_PLANES_ZSTD, NKV_CODEC_INT4}) {
      add_cold(codec);
    }
    const std::vector<std::uint16_t> queries = make_queries(data, 3, 3.0, 6);
    commands_ = page_commands(&bench_, list_, queries, NKV_CODEC_PLANES_LZ4);
    before_.assign(bench_.window().begin(), bench_.window().end());
  }

  [[nodiscard]] BenchDevice& bench() { return bench_; }
  [[nodiscard]] const StoredList& list() const { return list_; }
  [[nodiscard]] const std::vector<PageCommand>& commands() const { return commands_; }
  /// Commands over pages that are compressed.
  [[nodiscard]] const std::vector<PageCommand>& cold_commands() const { return cold_commands_; }
  [[nodiscard]] std::uint64_t page_at(std::size_t index) {
    const auto* const entry = bench_.at<nkv_page_entry>(list_.page_list) + index;
    return std::uint64_t{entry->page} * NKV_PAGE_GRAIN_BYTES;
  }
  void restore() { std::ranges::copy(before_, bench_.window().begin()); }

 private:
  /// The same pages in another codec, and commands over them.
  void add_cold(std::uint8_t codec) {
    StoredList cold = list_;
    const nkv_pages_command cooled = transcode_command(&bench_, list_, codec, list_.page_bytes, 9);
    bench_.run(cooled);
    cold.page_list = cooled.destination;
    const auto add = [&](const auto& command) {
      PageCommand named{"cold", {}, true};
      std::memcpy(named.bytes.data(), &command, sizeof(command));
      cold_commands_.push_back(named);
    };
    add(transcode_command(&bench_, cold, NKV_CODEC_NONE, list_.page_bytes, 3));
    add(pages_command(cold, NKV_OPCODE_SCRUB));
    add(pages_command(cold, NKV_OPCODE_COPY, free_places(&bench_, cold, list_.page_bytes, 4)));
    add(attend_command(&bench_, cold, std::vector<std::uint16_t>(cold.head_dim, 0x3F80)));
  }

  BenchDevice bench_{"cpu:?memory=2MiB&threads=2&huge=off"};
  StoredList list_;
  std::vector<PageCommand> commands_;
  std::vector<PageCommand> cold_commands_;
  std::vector<std::byte> before_;
};

}  // namespace nearkv::test
