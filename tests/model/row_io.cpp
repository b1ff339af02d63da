#include "row_io.hpp"

#include "support/checksum.hpp"

namespace nearkv::test {

nkv_read_command read_command(const Sequence& sequence, uint8_t tensor, uint32_t first,
                              uint32_t count, uint64_t result) {
  nkv_read_command command{};
  command.opcode = NKV_OPCODE_READ;
  command.tensor = tensor;
  command.first = first;
  command.count = count;
  command.page_list = sequence.page_list;
  command.result = result;
  return command;
}

nkv_gather_command gather_command(const Sequence& sequence, uint8_t tensor, uint64_t ids,
                                  uint32_t count, uint64_t result) {
  nkv_gather_command command{};
  command.opcode = NKV_OPCODE_GATHER;
  command.tensor = tensor;
  command.tokens = sequence.tokens;
  command.count = count;
  command.ids = ids;
  command.page_list = sequence.page_list;
  command.result = result;
  return command;
}

std::vector<uint32_t> read_patterns(Device& device, const Sequence& sequence, uint8_t dtype,
                                    uint32_t dim, uint8_t tensor, uint32_t first, uint32_t count) {
  const uint64_t mark = device.mark();
  const uint64_t bytes = uint64_t{count} * dim * nkv_element_bytes(dtype);
  const uint64_t result = device.allocate(bytes);
  const auto completion = device.run(read_command(sequence, tensor, first, count, result));
  std::vector<uint32_t> patterns;
  if (completion.status == NKV_STATUS_OK && completion.count == count) {
    patterns = from_bytes(dtype, device.read<std::byte>(result, bytes));
  }
  device.release(mark);
  return patterns;
}

std::vector<nkv_page_entry> read_entries(const Device& device, const Sequence& sequence) {
  return device.read<nkv_page_entry>(sequence.page_list, sequence.pages());
}

nkv_page_header read_header(const Device& device, const nkv_page_entry& entry) {
  return device.read<nkv_page_header>(uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES, 1)[0];
}

void forge_header(Device& device, const nkv_page_entry& entry,
                  const std::function<void(nkv_page_header&)>& change) {
  nkv_page_header header = read_header(device, entry);
  change(header);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.crc_hot = checksum(bytes.first(offsetof(nkv_page_header, crc_hot)));
  header.crc_cold = checksum(
      bytes.subspan(NKV_BURST_BYTES, offsetof(nkv_page_header, crc_cold) - NKV_BURST_BYTES));
  device.write<nkv_page_header>(uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES, std::span(&header, 1));
}

nkv_page_layout layout_of(const nkv_page_header& header) {
  return layout_of(header.dtype, header.head_dim, header.value_dim,
                   {.k_form = header.k_form, .v_form = header.v_form}, header.flags);
}

std::vector<std::byte> read_array(const Device& device, const nkv_page_entry& entry,
                                  nkv_page_array array) {
  const nkv_page_layout layout = layout_of(read_header(device, entry));
  return device.read<std::byte>(uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES + layout.offset[array],
                                layout.bytes[array]);
}

}  // namespace nearkv::test
