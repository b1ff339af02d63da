#include "page_commands.hpp"

#include "attention.hpp"
#include "row_io.hpp"
#include "topk_commands.hpp"

namespace nearkv::test {

namespace {

constexpr uint64_t kResultBytes = 64 << 10;

std::vector<nkv_page_array> all_arrays() {
  std::vector<nkv_page_array> arrays;
  for (int i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) arrays.push_back(static_cast<nkv_page_array>(i));
  return arrays;
}

class Collector {
 public:
  Collector(Device& device, const Sequence& sequence, const Rows& query, uint32_t value_dim)
      : device_(&device), sequence_(sequence), query_(&query), value_dim_(value_dim) {}

  void add_attend(const char* name, const AttendOptions& options,
                  std::vector<nkv_page_array> verified) {
    auto command = attend_command(*device_, sequence_, *query_, value_dim_, options);
    add(name, command, command.result, true, std::move(verified));
  }

  void add_topk(const char* name, const TopkOptions& options, bool reads_second_burst,
                std::vector<nkv_page_array> verified) {
    auto command = topk_command(*device_, sequence_, *query_, options);
    add(name, command, command.result, reads_second_burst, std::move(verified));
  }

  void add_read(const char* name, uint8_t tensor, uint8_t planes,
                std::vector<nkv_page_array> verified) {
    auto command = read_command(sequence_, tensor, 0, sequence_.tokens, 0);
    command.planes = planes;
    command.result = device_->allocate(kResultBytes);
    add(name, command, command.result, true, std::move(verified));
  }

  void add_scrub() {
    add("SCRUB", pages_command(NKV_OPCODE_SCRUB, sequence_), device_->allocate(64), true,
        all_arrays());
  }

  std::vector<PageReader> take() { return std::move(readers_); }

 private:
  template <typename T>
  void add(const char* name, const T& command, uint64_t& result, bool reads_second_burst,
           std::vector<nkv_page_array> verified) {
    result = device_->allocate(kResultBytes);
    add(name, command, uint64_t{result}, reads_second_burst, std::move(verified));
  }

  template <typename T>
  void add(const char* name, const T& command, uint64_t&& result, bool reads_second_burst,
           std::vector<nkv_page_array> verified) {
    readers_.push_back({.name = name,
                        .command = std::bit_cast<CommandBytes>(command),
                        .result = result,
                        .result_bytes = kResultBytes,
                        .reads_second_header_burst = reads_second_burst,
                        .verified = std::move(verified)});
  }

  Device* device_;
  Sequence sequence_;
  const Rows* query_;
  uint32_t value_dim_;
  std::vector<PageReader> readers_;
};

}  // namespace

nkv_pages_command pages_command(uint8_t opcode, const Sequence& sequence, uint64_t destination) {
  nkv_pages_command command{};
  command.opcode = opcode;
  command.count = sequence.pages();
  command.source = sequence.page_list;
  command.destination = destination;
  return command;
}

}  // namespace nearkv::test
