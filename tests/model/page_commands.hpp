// SCRUB, ERASE and COPY from the host's side, and one of each command that reads pages.
#ifndef NEARKV_TESTS_MODEL_PAGE_COMMANDS_HPP_
#define NEARKV_TESTS_MODEL_PAGE_COMMANDS_HPP_

#include <cstdint>
#include <string>
#include <vector>

#include "device.hpp"
#include "sequence.hpp"

namespace nearkv::test {

nkv_pages_command pages_command(uint8_t opcode, const Sequence& sequence, uint64_t destination = 0);

/// A command over a whole sequence, where it leaves its result, and what it verifies.
struct PageReader {
  std::string name;
  CommandBytes command;
  uint64_t result;
  uint64_t result_bytes;
  bool reads_second_header_burst;
  std::vector<nkv_page_array> verified;  ///< Arrays read whole: a flipped bit is always noticed.
};

/// Commands of every kind that reads pages. `value_dim` 0 leaves out those that need values.
std::vector<PageReader> page_readers(Device& device, const Sequence& sequence, const Rows& query,
                                     uint32_t value_dim);

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_PAGE_COMMANDS_HPP_
