// Finished pages from elsewhere become a layer's, or nothing changes.
#include <algorithm>
#include <cstring>

#include "page/page_view.hpp"
#include "pool/pool_impl.hpp"
#include "round_up.hpp"

namespace nearkv {
namespace {

/// In the pool's row forms, or all of it in RAW.
bool has_forms_of(const ModelShape& shape, const nkv_page_header& header) {
  if (header.k_form == shape.k_form && header.v_form == shape.v_form) return true;
  const bool stores_values = shape.v_form != NKV_ROW_FORM_NONE;
  return header.k_form == NKV_ROW_FORM_RAW &&
         header.v_form == (stores_values ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_NONE);
}

}  // namespace

struct Pool::Impl::PagesAppend {
  std::uint64_t sequence = 0;
  std::uint16_t layer = 0;
  std::uint32_t first_token = 0;
  std::span<const std::span<const std::byte>> pages;
  std::size_t of_head = 0;  ///< How many each KV head has.
  std::string what;
};

Status Pool::Impl::check_staged(const PagesAppend& work, std::size_t number, std::uint32_t page,
                                nkv_page_entry* source) {
  const auto kv_head = static_cast<std::uint16_t>(number / work.of_head);
  const auto token =
      static_cast<std::uint32_t>(work.first_token + number % work.of_head * NKV_PAGE_TOKENS);
  nkv_page_header header{};
  const std::uint64_t bytes = work.pages[number].size();
  if (!inspect(page, bytes, &header) || header.codec != NKV_CODEC_NONE || header.flags != 0 ||
      !has_forms_of(options_.shape, header) || page_bytes(header) != bytes ||
      header.sequence_id != work.sequence || header.layer != work.layer ||
      header.kv_head != kv_head || header.first_token != token) {
    return fail(
        Status::kBadPage, work.what + ", page " + std::to_string(number),
        "wanted is a whole page of this pool's shape and row forms, or RAW, whose header names " +
            place(work.sequence, work.layer, kv_head) + ", token " + std::to_string(token));
  }
  *source = {page, header.generation, header.k_exponent, header.v_exponent};
  return Status::kOk;
}

Status Pool::Impl::append_pages_staged(const PagesAppend& work, std::size_t* begin,
                                       std::vector<std::vector<nkv_page_entry>>* entries) {
  const std::size_t run = std::min(pages_staged_together(0), work.pages.size() - *begin);
  const std::span<const std::span<const std::byte>> some = work.pages.subspan(*begin, run);
  std::uint64_t bytes = NKV_PAGE_GRAIN_BYTES;
  for (const std::span<const std::byte> page : some) {
    bytes += round_up(page.size(), NKV_PAGE_GRAIN_BYTES);
  }
  std::uint64_t list = 0;
  std::uint64_t places = 0;
  batch_->clear();
  if (!batch_->reserve(run * sizeof(nkv_page_entry), &list) || !batch_->reserve(bytes, &places)) {
    return Status::kInternal;  // No page is larger than those that runs are counted with.
  }
  places = round_up(places, NKV_PAGE_GRAIN_BYTES);
  std::vector<nkv_page_entry> sources(run);
  std::vector<std::uint32_t> numbers(run);
  std::vector<nkv_page_entry> made;
  for (std::size_t i = 0; i < run; ++i) {
    numbers[i] = static_cast<std::uint32_t>(*begin + i);
    batch_->write(places, some[i]);
    const Status status = check_staged(
        work, numbers[i], static_cast<std::uint32_t>(places / NKV_PAGE_GRAIN_BYTES), &sources[i]);
    if (status != Status::kOk) return status;
    places += round_up(some[i].size(), NKV_PAGE_GRAIN_BYTES);
    std::vector<Slot> slots;
    if (!slabs_.allocate(static_cast<std::uint32_t>(some[i].size()), 1, &slots)) {
      return fail(Status::kPoolFull, work.what);
    }
    made.push_back({slots.front().page, slots.front().generation, 0, 0});
    (*entries)[numbers[i] / work.of_head].push_back(made.back());
  }
  batch_->write(list, std::as_bytes(std::span(sources)));
  const Status status = copy_staged(list, work.what, numbers, &made);
  if (status != Status::kOk) return status;
  if (device_->is_gone()) return Status::kNoDevice;
  for (std::size_t i = 0; i < run; ++i) {
    (*entries)[numbers[i] / work.of_head][numbers[i] % work.of_head] = made[i];
  }
  *begin += run;
  return Status::kOk;
}

Status Pool::Impl::append_pages(std::uint64_t id, std::uint16_t layer,
                                std::span<const std::span<const std::byte>> pages) {
  const ModelShape& shape = options_.shape;
  PagesAppend work;
  work.what = "appending " + std::to_string(pages.size()) + " pages to sequence " +
              std::to_string(id) + ", layer " + std::to_string(layer);
  work.of_head = pages.size() / shape.kv_heads;
  std::span<HeadList> heads;
  Status status = find_heads(id, layer, work.of_head, work.what, &heads);
  if (status != Status::kOk) return status;
  if (pages.size() % shape.kv_heads != 0) {
    return fail(Status::kBadArgument, work.what,
                "each of " + std::to_string(shape.kv_heads) + " KV heads takes as many");
  }
  const std::uint64_t compact_bytes = PoolPlan::page_bytes(shape, false);
  const std::uint64_t raw_bytes = PoolPlan::page_bytes(shape, true);
  for (std::size_t number = 0; number < pages.size(); ++number) {
    const std::uint64_t bytes = pages[number].size();
    if (bytes == compact_bytes || bytes == raw_bytes) continue;
    return fail(Status::kBadPage, work.what + ", page " + std::to_string(number),
                "it has " + std::to_string(bytes) + " bytes; this pool's pages have " +
                    std::to_string(compact_bytes) + ", or " + std::to_string(raw_bytes) +
                    " in RAW");
  }
  work.sequence = id;
  work.layer = layer;
  work.first_token = static_cast<std::uint32_t>(heads.front().entries.size() * NKV_PAGE_TOKENS);
  work.pages = pages;
  std::vector<ListBlock> blocks;
  status = find_list_room(heads, work.of_head, work.what, &blocks);
  std::vector<std::vector<nkv_page_entry>> entries(shape.kv_heads);
  for (std::size_t begin = 0; begin < pages.size() && status == Status::kOk;) {
    status = append_pages_staged(work, &begin, &entries);
  }
  return extend_layer(heads, blocks, entries, status);
}

}  // namespace nearkv
