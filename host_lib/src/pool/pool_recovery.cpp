// Taking a pool up again: pages say whose they are, the sequence table says who there is.
#include <algorithm>
#include <cstring>
#include <set>

#include "page/checksum.hpp"
#include "page/encode.hpp"
#include "page/page_view.hpp"
#include "pool/pool_impl.hpp"

namespace nearkv {
namespace {

/// Pages found of one (sequence, layer, KV head), by page number.
using FoundPages = std::map<std::uint32_t, nkv_page_entry>;

/// Reads a slot's header; false if it is no published page of this pool's shape.
bool read_header(std::span<const std::byte> slot, const ModelShape& shape,
                 nkv_page_header* header) {
  std::memcpy(header, slot.data(), sizeof(*header));
  return header->magic == NKV_PAGE_MAGIC && header->version == NKV_PAGE_VERSION &&
         header->state == NKV_PAGE_STATE_CLOSED && header->crc_hot == hot_checksum(*header) &&
         header->crc_cold == cold_checksum(*header) && header->layer < shape.layers &&
         header->kv_head < shape.kv_heads && header->head_dim == shape.head_dim &&
         header->value_dim == shape.value_dim && header->dtype == shape.dtype &&
         header->first_token % NKV_PAGE_TOKENS == 0;
}

}  // namespace

void Pool::Impl::recover() {
  const ModelShape& shape = options_.shape;
  const std::size_t heads = std::size_t{shape.layers} * shape.kv_heads;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    nkv_sequence_record record{};
    std::memcpy(&record, memory_.data() + plan_.header.sequences_at + i * sizeof(record),
                sizeof(record));
    const std::uint32_t crc =
        crc32c(std::as_bytes(std::span(&record, 1)).first(offsetof(nkv_sequence_record, state)));
    const bool dropped = record.state == NKV_SEQUENCE_STATE_DROPPED;
    if ((record.state != NKV_SEQUENCE_STATE_ACTIVE && !dropped) || record.crc != crc) continue;
    Sequence sequence;
    sequence.record = i;
    sequence.parent = record.parent_id;
    sequence.fork_tokens = record.fork_tokens;
    sequence.dropped = dropped;
    records_[i] = true;
    sequences_.emplace(record.sequence_id, std::move(sequence));
  }

  std::map<std::uint64_t, std::vector<FoundPages>> found;
  slabs_.for_each_slot([&](std::uint32_t page, std::uint32_t slot_bytes) {
    const std::span<const std::byte> slot =
        memory_.subspan(std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES, slot_bytes);
    nkv_page_header header{};
    if (!read_header(slot, shape, &header) || !sequences_.contains(header.sequence_id)) return;
    std::vector<FoundPages>& lists = found.try_emplace(header.sequence_id, heads).first->second;
    nkv_page_entry entry{};
    entry.page = page;
    entry.generation = header.generation;
    entry.k_exponent = header.k_exponent;
    entry.v_exponent = header.v_exponent;
    lists[std::size_t{header.layer} * shape.kv_heads + header.kv_head].emplace(
        header.first_token / NKV_PAGE_TOKENS, entry);
  });

  // A child's list starts with its parent's, so parents are completed first.
  std::map<std::uint64_t, std::vector<std::vector<nkv_page_entry>>> complete;
  const std::function<const std::vector<std::vector<nkv_page_entry>>&(std::uint64_t, std::size_t)>
      build = [&](std::uint64_t id,
                  std::size_t depth) -> const std::vector<std::vector<nkv_page_entry>>& {
    const auto [place, fresh] = complete.try_emplace(id, heads);
    const auto sequence = sequences_.find(id);
    // A chain longer than there are sequences has been tampered with.
    if (!fresh || sequence == sequences_.end() || depth > sequences_.size()) return place->second;
    std::vector<std::vector<nkv_page_entry>> lists(heads);
    const std::size_t shared = sequence->second.fork_tokens / NKV_PAGE_TOKENS;
    if (shared != 0) {
      lists = build(sequence->second.parent, depth + 1);
      for (std::vector<nkv_page_entry>& list : lists) list.resize(std::min(list.size(), shared));
    }
    const auto own = found.find(id);
    for (std::size_t head = 0; head < heads && own != found.end(); ++head) {
      if (lists[head].size() != shared) continue;
      const FoundPages& pages = own->second[head];
      for (auto page = pages.find(static_cast<std::uint32_t>(shared));
           page != pages.end() && page->first == lists[head].size(); ++page) {
        lists[head].push_back(page->second);
      }
    }
    // Only what every KV head of a layer has was ever acknowledged.
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
      const std::span<std::vector<nkv_page_entry>> of_layer =
          std::span(lists).subspan(layer * shape.kv_heads, shape.kv_heads);
      std::size_t shortest = of_layer[0].size();
      for (const auto& list : of_layer) shortest = std::min(shortest, list.size());
      for (auto& list : of_layer) list.resize(shortest);
    }
    return complete[id] = std::move(lists);
  };

  std::set<std::uint32_t> kept;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.dropped) continue;
    const std::vector<std::vector<nkv_page_entry>>& lists = build(id, 0);
    sequence.heads.resize(heads);
    for (std::size_t head = 0; head < heads; ++head) {
      // Lists had room before the restart, and need no more now.
      if (!extend_list(&sequence.heads[head], lists[head])) continue;
      for (const nkv_page_entry& entry : lists[head]) {
        if (kept.insert(entry.page).second) {
          slabs_.adopt(entry.page);
        } else {
          share(entry);
        }
      }
    }
  }
  slabs_.for_each_slot([&](std::uint32_t page, std::uint32_t) {
    if (!kept.contains(page))
      retract_page(memory_.subspan(std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES, 8));
  });
  slabs_.give_back_empty();
  release_unshared();
}

}  // namespace nearkv
