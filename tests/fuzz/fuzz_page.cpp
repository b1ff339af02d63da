// The page reader: whatever the bytes of a page say, under whatever checksums, commands complete.
//
// An input lists changes to the second page: two bytes of offset, one of the new value. The first
// byte of the input says whether checksums are made right again, so that the bytes are believed.
#include <isa-l/crc.h>

#include <cstdlib>
#include <cstring>

#include "small_device.hpp"
#include "target.hpp"

namespace {

std::uint32_t crc32c(const std::byte* bytes, std::size_t count) {
  auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
  return ~crc32_iscsi(data, static_cast<int>(count), ~0U);
}

void seal(std::byte* page) {
  nkv_page_header header{};
  std::memcpy(&header, page, sizeof(header));
  header.crc_hot = crc32c(page, offsetof(nkv_page_header, crc_hot));
  header.crc_cold =
      crc32c(page + NKV_BURST_BYTES, offsetof(nkv_page_header, crc_cold) - NKV_BURST_BYTES);
  std::memcpy(page, &header, sizeof(header));
}

/// Checksums of all arrays as the header's own shape lays them out, if they lie in the window.
void seal_arrays(std::span<std::byte> page) {
  nkv_page_header header{};
  std::memcpy(&header, page.data(), sizeof(header));
  nkv_page_shape shape{};
  shape.k_form = header.k_form;
  shape.v_form = header.v_form;
  shape.dtype = header.dtype;
  shape.flags = header.flags;
  shape.head_dim = header.head_dim;
  shape.value_dim = header.value_dim;
  const bool plain = shape.k_form <= NKV_ROW_FORM_NONE && shape.v_form <= NKV_ROW_FORM_NONE &&
                     shape.dtype <= NKV_DTYPE_INT8 && shape.head_dim <= NKV_MAX_HEAD_DIM &&
                     shape.value_dim <= NKV_MAX_HEAD_DIM;
  if (!plain) return;
  nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  if (layout.total_bytes > page.size()) return;
  const auto crc = [&](int array) {
    return crc32c(page.data() + layout.offset[array], layout.bytes[array]);
  };
  header.crc_k_exponents = crc(NKV_PAGE_ARRAY_K_EXPONENTS);
  header.crc_k_rows = crc(NKV_PAGE_ARRAY_K_ROWS);
  header.crc_k_exceptions = crc(NKV_PAGE_ARRAY_K_EXCEPTIONS);
  header.crc_key_scales = crc(NKV_PAGE_ARRAY_KEY_SCALES);
  header.crc_v_exponents = crc(NKV_PAGE_ARRAY_V_EXPONENTS);
  header.crc_v_rows = crc(NKV_PAGE_ARRAY_V_ROWS);
  header.crc_v_exceptions = crc(NKV_PAGE_ARRAY_V_EXCEPTIONS);
  std::memcpy(page.data(), &header, sizeof(header));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static nearkv::test::SmallDevice device;
  if (size == 0) return 0;
  const std::uint64_t address = device.page_at(1);
  const std::span<std::byte> rest = device.bench().window().subspan(address);
  for (const nearkv::test::PageCommand& command : device.commands()) {
    device.restore();
    for (std::size_t at = 1; at + 2 < size; at += 3) {
      const std::size_t offset = (data[at] + 256U * data[at + 1]) % device.list().page_bytes;
      rest[offset] = static_cast<std::byte>(data[at + 2]);
    }
    if (data[0] % 4 >= 1) {
      if (data[0] % 4 >= 2) seal_arrays(rest);
      seal(rest.data());
    }
    const nkv_completion completion = device.bench().run(command.bytes);
    if (completion.status >= NKV_STATUS_INTERNAL) std::abort();
  }
  return 0;
}

namespace nearkv::test {

const char* const mutation_fault = "mutated page";
const int mutation_runs = 4000;

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  for (std::uint8_t seals = 0; seals < 3; ++seals) {
    constexpr std::uint8_t kHeaderBytes = sizeof(nkv_page_header);
    for (std::uint8_t byte = 0; byte < kHeaderBytes; byte += 2) {
      inputs.push_back({seals, byte, 0, 0xFF});
    }
    inputs.push_back({seals, 0, 1, 0x55, 0, 3, 0x55, 0, 8, 0xFF, 0, 20, 0x80});
  }
  return inputs;
}

}  // namespace nearkv::test
