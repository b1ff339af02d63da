// Sequences: creation, forks by shared pages, and their end.
#include <algorithm>

#include "pool/pool_impl.hpp"

namespace nearkv {

Sequence* Pool::Impl::find(std::uint64_t id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() || found->second.dropped ? nullptr : &found->second;
}

HeadList* Pool::Impl::find_head(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head) {
  Sequence* const sequence = find(id);
  const ModelShape& shape = options_.shape;
  if (sequence == nullptr || layer >= shape.layers || kv_head >= shape.kv_heads) return nullptr;
  return &sequence->heads[std::size_t{layer} * shape.kv_heads + kv_head];
}

void Pool::Impl::write_record(std::uint64_t id, const Sequence& sequence, std::uint32_t state) {
  nkv_sequence_record record{};
  record.state = state;
  record.sequence_id = id;
  record.parent_id = sequence.parent;
  record.fork_tokens = sequence.fork_tokens;
  table_.write(sequence.record, record);
}

Status Pool::Impl::create_sequence(std::uint64_t id) {
  const std::string what = "creating sequence " + std::to_string(id);
  if (sequences_.contains(id)) return fail(Status::kExists, what);
  const std::optional<std::size_t> record = table_.find_free();
  if (!record) return fail(Status::kPoolFull, what + " beyond max_sequences");
  Sequence sequence;
  sequence.record = *record;
  sequence.heads.resize(head_count());
  write_record(id, sequence, NKV_SEQUENCE_STATE_ACTIVE);
  sequences_.emplace(id, std::move(sequence));
  return Status::kOk;
}

void Pool::Impl::share(const nkv_page_entry& entry) {
  ++shares_.try_emplace(entry.page, 1).first->second;
}

void Pool::Impl::unshare(const nkv_page_entry& entry) {
  const auto shared = shares_.find(entry.page);
  if (shared == shares_.end()) {
    cold_.erase(entry.page);
    slabs_.release(entry.page);
  } else if (--shared->second == 1) {
    shares_.erase(shared);
  }
}

bool Pool::Impl::find_room(std::span<const HeadList> lists, std::size_t more,
                           std::vector<ListBlock>* blocks) {
  blocks->clear();
  for (const HeadList& list : lists) {
    const std::uint64_t needed = (list.entries.size() + more) * sizeof(nkv_page_entry);
    ListBlock block;
    if (needed > list.capacity_bytes) {
      block.bytes = needed;
      if (!lists_.allocate(&block.bytes, &block.address)) {
        give_back(*blocks);
        blocks->clear();
        return false;
      }
    }
    blocks->push_back(block);
  }
  return true;
}

void Pool::Impl::give_back(std::span<const ListBlock> blocks) {
  for (const ListBlock& block : blocks) {
    if (block.bytes != 0) lists_.release(block.address, block.bytes);
  }
}

void Pool::Impl::extend_list(HeadList* list, const ListBlock& block,
                             std::span<const nkv_page_entry> entries) {
  if (block.bytes != 0) {
    std::ranges::copy(std::as_bytes(std::span(list->entries)), memory_.data() + block.address);
    if (list->capacity_bytes != 0) lists_.release(list->address, list->capacity_bytes);
    list->address = block.address;
    list->capacity_bytes = block.bytes;
  }
  std::ranges::copy(std::as_bytes(entries),
                    memory_.data() + list->address + list->entries.size() * sizeof(nkv_page_entry));
  list->entries.insert(list->entries.end(), entries.begin(), entries.end());
}

Status Pool::Impl::fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens) {
  const std::string what = "forking sequence " + std::to_string(child) + " from " +
                           std::to_string(parent) + " at token " + std::to_string(tokens);
  const Sequence* const source = find(parent);
  if (source == nullptr) return fail(Status::kNotFound, what);
  if (sequences_.contains(child)) return fail(Status::kExists, what);
  const std::size_t pages = tokens / NKV_PAGE_TOKENS;
  const bool present = std::ranges::all_of(
      source->heads, [&](const HeadList& head) { return head.entries.size() >= pages; });
  if (tokens % NKV_PAGE_TOKENS != 0 || !present) {
    return fail(Status::kBadArgument, what + ": not a whole number of pages that all layers have");
  }
  const std::optional<std::size_t> record = table_.find_free();
  if (!record) return fail(Status::kPoolFull, what + " beyond max_sequences");
  Sequence sequence;
  sequence.record = *record;
  sequence.parent = parent;
  sequence.fork_tokens = tokens;
  sequence.heads.resize(source->heads.size());
  std::vector<ListBlock> blocks;
  const Status status = find_list_room(sequence.heads, pages, what, &blocks);
  if (status != Status::kOk) return status;
  for (std::size_t i = 0; i < source->heads.size(); ++i) {
    extend_list(&sequence.heads[i], blocks[i], std::span(source->heads[i].entries).first(pages));
  }
  for (const HeadList& head : sequence.heads)
    std::ranges::for_each(head.entries, [&](const auto& entry) { share(entry); });
  write_record(child, sequence, NKV_SEQUENCE_STATE_ACTIVE);
  sequences_.emplace(child, std::move(sequence));
  return Status::kOk;
}

void Pool::Impl::release_sequence(std::uint64_t id) {
  Sequence& sequence = sequences_.at(id);
  for (HeadList& head : sequence.heads) {
    for (const nkv_page_entry& entry : head.entries) unshare(entry);
    if (head.capacity_bytes != 0) lists_.release(head.address, head.capacity_bytes);
  }
  sequence.heads.clear();
  sequence.dropped = true;
}

void Pool::Impl::release_unshared() {
  // A dropped sequence goes once nobody was forked from it; that may free its own parent in turn.
  std::map<std::uint64_t, std::size_t> children;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.fork_tokens != 0) ++children[sequence.parent];
  }
  std::vector<std::uint64_t> unneeded;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.dropped && !children.contains(id)) unneeded.push_back(id);
  }
  while (!unneeded.empty()) {
    const auto gone = sequences_.extract(unneeded.back());
    unneeded.pop_back();
    table_.clear(gone.mapped().record);
    if (gone.mapped().fork_tokens == 0 || --children[gone.mapped().parent] != 0) continue;
    const auto parent = sequences_.find(gone.mapped().parent);
    if (parent != sequences_.end() && parent->second.dropped) unneeded.push_back(parent->first);
  }
}

Status Pool::Impl::drop(std::uint64_t id) {
  const Sequence* const sequence = find(id);
  if (sequence == nullptr) {
    return fail(Status::kNotFound, "dropping sequence " + std::to_string(id));
  }
  // Recorded before the first page goes, so that a crash in between leaves no half of a sequence.
  write_record(id, *sequence, NKV_SEQUENCE_STATE_DROPPED);
  release_sequence(id);
  release_unshared();
  return Status::kOk;
}

Status Pool::Impl::tokens(std::uint64_t id, std::uint16_t layer, std::uint32_t* tokens) {
  const Sequence* const sequence = find(id);
  if (sequence == nullptr || layer >= options_.shape.layers) {
    return fail(Status::kNotFound, "counting tokens of sequence " + std::to_string(id) +
                                       ", layer " + std::to_string(layer));
  }
  const auto first = sequence->heads.begin() +
                     static_cast<std::ptrdiff_t>(std::size_t{layer} * options_.shape.kv_heads);
  const auto shortest = std::min_element(
      first, first + options_.shape.kv_heads,
      [](const HeadList& a, const HeadList& b) { return a.entries.size() < b.entries.size(); });
  *tokens = static_cast<std::uint32_t>(shortest->entries.size() * NKV_PAGE_TOKENS);
  return Status::kOk;
}

Status Pool::Impl::page_list(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                             std::uint64_t* address, std::uint32_t* tokens) {
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list == nullptr) {
    return fail(Status::kNotFound, "finding the page list of " + place(id, layer, kv_head));
  }
  *address = list->address;
  *tokens = static_cast<std::uint32_t>(list->entries.size() * NKV_PAGE_TOKENS);
  return Status::kOk;
}

}  // namespace nearkv
