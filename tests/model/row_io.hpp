// READ and GATHER from the host's side.
#ifndef NEARKV_TESTS_MODEL_ROW_IO_HPP_
#define NEARKV_TESTS_MODEL_ROW_IO_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "device.hpp"
#include "sequence.hpp"

namespace nearkv::test {

nkv_read_command read_command(const Sequence& sequence, uint8_t tensor, uint32_t first,
                              uint32_t count, uint64_t result);

nkv_gather_command gather_command(const Sequence& sequence, uint8_t tensor, uint64_t ids,
                                  uint32_t count, uint64_t result);

/// Patterns of rows `first` to `first + count` of one tensor; nothing if READ failed.
std::vector<uint32_t> read_patterns(Device& device, const Sequence& sequence, uint8_t dtype,
                                    uint32_t dim, uint8_t tensor, uint32_t first, uint32_t count);

/// Entries of a sequence.
std::vector<nkv_page_entry> read_entries(const Device& device, const Sequence& sequence);

/// A page's header, and its array's bytes.
nkv_page_header read_header(const Device& device, const nkv_page_entry& entry);
std::vector<std::byte> read_array(const Device& device, const nkv_page_entry& entry,
                                  nkv_page_array array);

/// Changes a page's header and makes its checksums right again.
void forge_header(Device& device, const nkv_page_entry& entry,
                  const std::function<void(nkv_page_header&)>& change);

/// Layout of the page that a header describes.
nkv_page_layout layout_of(const nkv_page_header& header);

}  // namespace nearkv::test

#endif  // NEARKV_TESTS_MODEL_ROW_IO_HPP_
