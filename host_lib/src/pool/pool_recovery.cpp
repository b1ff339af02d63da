// Taking a pool up again: pages say whose they are, the sequence table says who there is.
#include <algorithm>
#include <cstring>
#include <set>

#include "page/maintain.hpp"
#include "page/window.hpp"
#include "pool/pool_impl.hpp"

namespace nearkv {

void Pool::Impl::take_up_records() {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const nkv_sequence_record& record = table_[i];
    if (record.state == NKV_SEQUENCE_STATE_FREE) continue;
    Sequence sequence;
    sequence.record = i;
    sequence.parent = record.parent_id;
    sequence.fork_tokens = record.fork_tokens;
    sequence.dropped = record.state == NKV_SEQUENCE_STATE_DROPPED;
    if (!sequences_.emplace(record.sequence_id, std::move(sequence)).second) table_.clear(i);
  }
}

bool Pool::Impl::inspect(std::uint32_t page, std::uint64_t room_bytes, nkv_page_header* header) {
  const std::uint64_t at = std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES;
  std::memcpy(header, memory_.data() + at, sizeof(*header));
  // The device checks an entry against the header; here the header is all that there is.
  const nkv_page_entry entry{page, header->generation, header->k_exponent, header->v_exponent};
  std::uint64_t bytes = 0;
  const Status status =
      inspect_page(Window(memory_, kTenant, &pool_->persistence()), entry, header, &bytes);
  const ModelShape& shape = options_.shape;
  return status == Status::kOk && bytes <= room_bytes && header->layer < shape.layers &&
         header->kv_head < shape.kv_heads && header->head_dim == shape.head_dim &&
         header->value_dim == shape.value_dim && header->dtype == shape.dtype &&
         header->first_token % NKV_PAGE_TOKENS == 0;
}

bool Pool::Impl::read_header(std::uint32_t page, std::uint32_t slot_bytes,
                             nkv_page_header* header) {
  std::uint64_t first_word = 0;
  std::memcpy(&first_word, memory_.data() + std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES,
              sizeof(first_word));
  if (first_word == 0) return false;
  const bool sound = inspect(page, slot_bytes, header);
  if (!sound) ++damaged_pages_;
  return sound;
}

Pool::Impl::FoundPages Pool::Impl::find_pages() {
  FoundPages found;
  slabs_.for_each_slot([&](std::uint32_t page, std::uint32_t slot_bytes) {
    nkv_page_header header{};
    if (!read_header(page, slot_bytes, &header)) return;
    if (!sequences_.contains(header.sequence_id)) return;
    const std::size_t head = std::size_t{header.layer} * options_.shape.kv_heads + header.kv_head;
    found[header.sequence_id].try_emplace(
        {head, header.first_token / NKV_PAGE_TOKENS},
        nkv_page_entry{page, header.generation, header.k_exponent, header.v_exponent});
  });
  return found;
}

Pool::Impl::Lists Pool::Impl::rebuild_lists(std::uint64_t id, const FoundPages& found,
                                            const std::map<std::uint64_t, Lists>& complete) {
  Sequence& sequence = sequences_.at(id);
  Lists lists(head_count());
  const std::size_t shared = sequence.fork_tokens / NKV_PAGE_TOKENS;
  if (shared != 0) {
    if (const auto parent = complete.find(sequence.parent); parent != complete.end()) {
      lists = parent->second;
    }
    std::size_t present = shared;
    for (const auto& list : lists) present = std::min(present, list.size());
    for (auto& list : lists) list.resize(present);
    if (present < shared) {
      // Its parent has lost pages that they shared. From now on it shares no more than is left:
      // what the parent appends in their place is not this sequence's.
      sequence.fork_tokens = static_cast<std::uint32_t>(present * NKV_PAGE_TOKENS);
      write_record(id, sequence, table_[sequence.record].state);
      return lists;
    }
  }
  if (const auto own = found.find(id); own != found.end()) {
    for (std::size_t head = 0; head < lists.size(); ++head) {
      for (auto page = own->second.find({head, lists[head].size()});
           page != own->second.end() && page->first == std::pair(head, lists[head].size());
           ++page) {
        lists[head].push_back(page->second);
      }
    }
  }
  // Only what every KV head of a layer has was ever acknowledged.
  const std::size_t kv_heads = options_.shape.kv_heads;
  for (std::size_t first = 0; first < lists.size(); first += kv_heads) {
    const auto of_layer = std::span(lists).subspan(first, kv_heads);
    const std::size_t shortest = std::ranges::min_element(of_layer, {}, [](const auto& list) {
                                   return list.size();
                                 })->size();
    for (auto& list : of_layer) list.resize(shortest);
  }
  return lists;
}

std::map<std::uint64_t, Pool::Impl::Lists> Pool::Impl::rebuild_all_lists(const FoundPages& found) {
  std::map<std::uint64_t, Lists> complete;
  std::vector<std::uint64_t> line;
  for (const auto& [id, sequence] : sequences_) {
    // A child's list starts with its parent's, so the oldest ancestor comes first. One that is its
    // own ancestor, which takes tampering, finds nothing to share.
    for (auto at = sequences_.find(id);
         at != sequences_.end() && complete.try_emplace(at->first, head_count()).second;) {
      line.push_back(at->first);
      if (at->second.fork_tokens == 0) break;
      at = sequences_.find(at->second.parent);
    }
    for (; !line.empty(); line.pop_back()) {
      complete[line.back()] = rebuild_lists(line.back(), found, complete);
    }
  }
  return complete;
}

void Pool::Impl::recover_layer(std::span<HeadList> heads,
                               std::span<std::vector<nkv_page_entry>> lists) {
  // Lists had room before their pages were published; unless somebody made pages up, it is there.
  std::vector<ListBlock> blocks;
  std::size_t pages = lists.front().size();
  while (!find_room(heads, pages, &blocks)) pages /= 2;
  for (std::size_t head = 0; head < heads.size(); ++head) {
    damaged_pages_ += lists[head].size() - pages;
    lists[head].resize(pages);
    extend_list(&heads[head], blocks[head], lists[head]);
  }
}

void Pool::Impl::recover() {
  take_up_records();
  std::map<std::uint64_t, Lists> complete = rebuild_all_lists(find_pages());
  std::set<std::uint32_t> kept;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.dropped) continue;
    Lists& lists = complete.at(id);
    sequence.heads.resize(head_count());
    const std::size_t kv_heads = options_.shape.kv_heads;
    for (std::size_t first = 0; first < lists.size(); first += kv_heads) {
      recover_layer(std::span(sequence.heads).subspan(first, kv_heads),
                    std::span(lists).subspan(first, kv_heads));
    }
    for (std::size_t head = 0; head < lists.size(); ++head) {
      for (const nkv_page_entry& entry : lists[head]) {
        if (kept.insert(entry.page).second) {
          slabs_.adopt(entry.page);
          nkv_page_header header{};
          std::memcpy(&header, memory_.data() + std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES,
                      sizeof(header));
          if (header.codec != NKV_CODEC_NONE) cold_.emplace(entry.page, header.codec);
          take_gains(head, entry, header);
        } else {
          share(entry);
        }
      }
    }
  }
  slabs_.finish_adoption();
  release_unshared();
}

}  // namespace nearkv
