// One command of every kind that touches pages.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "support/bench_device.hpp"

namespace nearkv::test {

struct PageCommand {
  std::string name;
  std::array<std::byte, NKV_COMMAND_BYTES> bytes{};
  bool whole_pages = false;  ///< TRANSCODE, SCRUB, ERASE, COPY: also for compressed pages.
};

/// A command of SCRUB, ERASE or COPY over all pages of `list`; `destination` is the address of as
/// many entries, or 0.
nkv_pages_command pages_command(const StoredList& list, std::uint8_t opcode,
                                std::uint64_t destination = 0);

/// TRANSCODE of all pages to free places of `slot_bytes`, under `generation`.
nkv_pages_command transcode_command(BenchDevice* bench, const StoredList& list, std::uint8_t codec,
                                    std::uint32_t slot_bytes, std::uint16_t generation);

/// A list of as many entries as `list` has, naming free places of `slot_bytes` each.
std::uint64_t free_places(BenchDevice* bench, const StoredList& list, std::uint32_t slot_bytes,
                          std::uint16_t generation);

/// Every way to reach the pages of `list`, in every mode that the device offers; TRANSCODE is to
/// `codec`. ERASE stands last, for it works.
std::vector<PageCommand> page_commands(BenchDevice* bench, const StoredList& list,
                                       std::span<const std::uint16_t> queries, std::uint8_t codec);

}  // namespace nearkv::test
