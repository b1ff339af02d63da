#include "page/maintain.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "page/checksum.hpp"
#include "page/encode.hpp"
#include "page/page_view.hpp"

namespace nearkv {
namespace {

std::uint64_t address_of(const nkv_page_entry& entry) {
  return std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
}

Status verify_payload(std::span<const std::byte> page, const nkv_page_header& header) {
  const std::span<const std::byte> payload = page.subspan(sizeof(header), header.payload_bytes);
  return crc32c(payload) == header.crc_v_exceptions ? Status::kOk : Status::kCorrupt;
}

}  // namespace

Status inspect_page(const Window& window, const nkv_page_entry& entry, nkv_page_header* header,
                    std::uint64_t* bytes) {
  PageView view;
  const Status status = view.open(window, entry, HeaderDepth::kRows);
  if (status != Status::kOk && status != Status::kColdPage) return status;
  *header = view.header();
  *bytes = page_bytes(*header);
  return window.at(address_of(entry), *bytes).empty() ? Status::kAddressFault : Status::kOk;
}

Status scrub_page(const Window& window, const nkv_page_entry& entry) {
  nkv_page_header header{};
  std::uint64_t bytes = 0;
  Status status = inspect_page(window, entry, &header, &bytes);
  if (status != Status::kOk) return status;
  if (header.codec != NKV_CODEC_NONE) {
    return verify_payload(window.at(address_of(entry), bytes), header);
  }
  PageView view;
  status = view.open(window, entry, HeaderDepth::kRows);
  for (int array = 0; array < NKV_PAGE_ARRAY_COUNT && status == Status::kOk; ++array) {
    status = view.verify(static_cast<nkv_page_array>(array));
  }
  return status;
}

Status erase_page(const Window& window, const nkv_page_entry& entry) {
  nkv_page_header header{};
  std::uint64_t bytes = 0;
  const Status status = inspect_page(window, entry, &header, &bytes);
  if (status != Status::kOk) return status;
  const std::span<std::byte> page = window.at(address_of(entry), bytes);
  retract_page(page);
  std::ranges::fill(page, std::byte{0});
  return Status::kOk;
}

Status copy_page(const Window& window, const nkv_page_entry& source, nkv_page_entry* destination) {
  nkv_page_header header{};
  std::uint64_t bytes = 0;
  const Status status = inspect_page(window, source, &header, &bytes);
  if (status != Status::kOk) return status;
  const std::span<std::byte> from = window.at(address_of(source), bytes);
  const std::span<std::byte> to = window.at(address_of(*destination), bytes);
  if (to.empty()) return Status::kAddressFault;
  retract_page(to);
  header.generation = destination->generation;
  header.crc_hot = hot_checksum(header);
  std::memcpy(to.data() + sizeof(header), from.data() + sizeof(header), bytes - sizeof(header));
  write_header(header, to);
  publish_page(to, header.flags);
  destination->k_exponent = header.k_exponent;
  destination->v_exponent = header.v_exponent;
  return Status::kOk;
}

}  // namespace nearkv
