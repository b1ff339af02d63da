#include "support/page_commands.hpp"

#include <cstring>

#include "support/offers.hpp"

namespace nearkv::test {
namespace {

/// A mode and the feature that a device offers it by; 0: every one does.
struct Mode {
  const char* name;
  std::uint8_t number;
  std::uint64_t feature;
};
constexpr Mode kAttendModes[] = {{"ATTEND DENSE", NKV_ATTEND_MODE_DENSE, 0},
                                 {"ATTEND TAIL", NKV_ATTEND_MODE_TAIL, NKV_FEATURE_CODES},
                                 {"ATTEND BOUNDED", NKV_ATTEND_MODE_BOUNDED, NKV_FEATURE_CODES}};
constexpr Mode kSelectModes[] = {{"TOPK STATISTICAL", NKV_SELECT_STATISTICAL, NKV_FEATURE_CODES},
                                 {"TOPK FULL", NKV_SELECT_FULL, 0},
                                 {"TOPK INDEXER", NKV_SELECT_INDEXER, NKV_FEATURE_INDEXER}};

template <typename Command>
PageCommand named(std::string name, const Command& command, bool whole_pages = false) {
  PageCommand result{std::move(name), {}, whole_pages};
  static_assert(sizeof(Command) == sizeof(result.bytes));
  std::memcpy(result.bytes.data(), &command, sizeof(command));
  return result;
}

std::uint64_t room_for_rows(BenchDevice* bench, const StoredList& list) {
  return bench->allocate(2 * list.tokens * (list.head_dim + list.value_dim) + 2 * NKV_BURST_BYTES);
}

}  // namespace

nkv_pages_command pages_command(const StoredList& list, std::uint8_t opcode,
                                std::uint64_t destination) {
  nkv_pages_command command{};
  command.opcode = opcode;
  command.count = static_cast<std::uint32_t>(list.pages());
  command.source = list.page_list;
  command.destination = destination;
  return command;
}

nkv_pages_command transcode_command(BenchDevice* bench, const StoredList& list, std::uint8_t codec,
                                    std::uint32_t slot_bytes, std::uint16_t generation) {
  nkv_pages_command command =
      pages_command(list, NKV_OPCODE_TRANSCODE, free_places(bench, list, slot_bytes, generation));
  command.codec = codec;
  command.slot_bytes = slot_bytes;
  command.result = bench->allocate(list.pages() * sizeof(std::uint32_t));
  return command;
}

std::uint64_t free_places(BenchDevice* bench, const StoredList& list, std::uint32_t slot_bytes,
                          std::uint16_t generation) {
  std::vector<nkv_page_entry> entries(list.pages());
  for (nkv_page_entry& entry : entries) {
    entry.page = static_cast<std::uint32_t>(bench->allocate(slot_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = generation;
  }
  return bench->store(std::span<const nkv_page_entry>(entries));
}

std::vector<PageCommand> page_commands(BenchDevice* bench, const StoredList& list,
                                       std::span<const std::uint16_t> queries, std::uint8_t codec) {
  std::vector<PageCommand> commands;
  // Memory is the same whatever is offered.
  const auto add_if = [&](std::uint64_t feature, PageCommand command) {
    const bool offers = feature == 0 || offers_feature(bench->device(), feature);
    if (offers) commands.push_back(std::move(command));
  };
  for (const Mode& mode : kAttendModes) {
    nkv_attend_command command = attend_command(bench, list, queries);
    command.mode = mode.number;
    command.top_k = mode.number == NKV_ATTEND_MODE_TAIL ? 8 : 0;
    command.error = mode.number == NKV_ATTEND_MODE_BOUNDED ? 0.1F : 0.0F;
    add_if(mode.feature, named(mode.name, command));
  }
  for (const Mode& mode : kSelectModes) {
    nkv_topk_command command = topk_command(bench, list, queries, 8, mode.number);
    if (mode.number == NKV_SELECT_INDEXER) {
      command.weights = bench->store(std::span<const float>(std::vector<float>(command.group, 1)));
    }
    add_if(mode.feature, named(mode.name, command));
  }
  nkv_read_command read{};
  read.opcode = NKV_OPCODE_READ;
  read.count = static_cast<std::uint32_t>(list.tokens);
  read.page_list = list.page_list;
  read.result = room_for_rows(bench, list);
  read.tensor = NKV_TENSOR_BOTH;
  commands.push_back(named("READ exact", read));

  const std::vector<std::uint32_t> ids{0, static_cast<std::uint32_t>(list.tokens - 1)};
  nkv_gather_command gather{};
  gather.opcode = NKV_OPCODE_GATHER;
  gather.tensor = NKV_TENSOR_BOTH;
  gather.tokens = static_cast<std::uint32_t>(list.tokens);
  gather.count = static_cast<std::uint32_t>(ids.size());
  gather.ids = bench->store(std::span<const std::uint32_t>(ids));
  gather.page_list = list.page_list;
  gather.result = room_for_rows(bench, list);
  commands.push_back(named("GATHER", gather));

  commands.push_back(named("SCRUB", pages_command(list, NKV_OPCODE_SCRUB), true));
  const std::uint64_t copies = free_places(bench, list, list.page_bytes, 9);
  commands.push_back(named("COPY", pages_command(list, NKV_OPCODE_COPY, copies), true));
  commands.push_back(
      named("TRANSCODE", transcode_command(bench, list, codec, list.page_bytes, 9), true));
  commands.push_back(named("ERASE", pages_command(list, NKV_OPCODE_ERASE), true));
  return commands;
}

}  // namespace nearkv::test
