#include "page/maintain.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "page/checksum.hpp"
#include "page/encode.hpp"
#include "page/page_view.hpp"

namespace nearkv {
namespace {

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
  return status == Status::kOk ? view.verify_all() : status;
}

Status erase_page(const Window& window, const nkv_page_entry& entry) {
  nkv_page_header header{};
  std::uint64_t bytes = 0;
  const Status status = inspect_page(window, entry, &header, &bytes);
  if (status != Status::kOk) return status;
  const std::span<std::byte> page = window.at(address_of(entry), bytes);
  vacate_slot(page, &window.persistence());
  std::ranges::fill(page, std::byte{0});
  window.persistence().write_back(page);
  return Status::kOk;
}

Status copy_page(const Window& window, MovedPage* page) {
  Status status = scrub_page(window, page->source);
  if (status != Status::kOk) return status;
  nkv_page_header header{};
  std::uint64_t bytes = 0;
  status = inspect_page(window, page->source, &header, &bytes);
  if (status != Status::kOk) return status;
  const std::span<std::byte> from = window.at(address_of(page->source), bytes);
  if (page->slot.size() < bytes) return Status::kPageOverflow;
  vacate_slot(page->slot, &window.persistence());
  header.generation = page->destination.generation;
  header.crc_hot = hot_checksum(header);
  std::memcpy(page->slot.data() + sizeof(header), from.data() + sizeof(header),
              bytes - sizeof(header));
  write_header(header, page->slot);
  page->bytes = static_cast<std::uint32_t>(bytes);
  page->flags = header.flags;
  page->destination.k_exponent = header.k_exponent;
  page->destination.v_exponent = header.v_exponent;
  return Status::kOk;
}

}  // namespace nearkv
