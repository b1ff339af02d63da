#include "support/plain_pool.hpp"

#include <algorithm>
#include <set>

namespace nearkv::test {
namespace {

bool is_shared(const std::shared_ptr<PlainPage>& page) { return page.use_count() > 1; }

}  // namespace

PlainPool::Sequence* PlainPool::find(std::uint64_t id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() || found->second.dropped ? nullptr : &found->second;
}

const PlainList* PlainPool::find(std::uint64_t id, std::uint16_t layer,
                                 std::uint16_t kv_head) const {
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || found->second.dropped) return nullptr;
  return &found->second.lists[std::size_t{layer} * kHeads + kv_head];
}

Status PlainPool::create_sequence(std::uint64_t id) {
  return sequences_.try_emplace(id).second ? Status::kOk : Status::kExists;
}

Status PlainPool::fork(std::uint64_t parent, std::uint64_t child, std::uint32_t tokens) {
  const Sequence* const source = find(parent);
  if (source == nullptr) return Status::kNotFound;
  if (sequences_.contains(child)) return Status::kExists;
  const std::size_t pages = tokens / NKV_PAGE_TOKENS;
  Sequence sequence;
  if (pages != 0) sequence.shares_with = parent;
  for (std::size_t i = 0; i < sequence.lists.size(); ++i) {
    const PlainList& list = source->lists[i];
    if (list.size() < pages) return Status::kBadArgument;
    sequence.lists[i].assign(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(pages));
  }
  sequences_.emplace(child, std::move(sequence));
  return Status::kOk;
}

Status PlainPool::drop(std::uint64_t id) {
  Sequence* const sequence = find(id);
  if (sequence == nullptr) return Status::kNotFound;
  sequence->dropped = true;
  sequence->lists = {};
  forget_unshared();
  return Status::kOk;
}

void PlainPool::forget_unshared() {
  const auto is_needed = [&](std::uint64_t id) {
    return std::ranges::any_of(sequences_,
                               [&](const auto& other) { return other.second.shares_with == id; });
  };
  const auto goes = [&](const auto& entry) {
    return entry.second.dropped && !is_needed(entry.first);
  };
  while (std::erase_if(sequences_, goes) != 0) {
  }
}

Status PlainPool::append(std::uint64_t id, std::uint16_t layer, std::size_t source,
                         std::size_t pages) {
  Sequence* const sequence = find(id);
  if (sequence == nullptr) return Status::kNotFound;
  for (std::size_t head = 0; head < kHeads; ++head) {
    PlainList& list = sequence->lists[std::size_t{layer} * kHeads + head];
    for (std::size_t page = 0; page < pages; ++page) {
      list.push_back(std::make_shared<PlainPage>(PlainPage{source + page}));
    }
  }
  return Status::kOk;
}

Status PlainPool::transcode(std::uint64_t id, std::uint8_t codec) {
  Sequence* const sequence = find(id);
  if (sequence == nullptr) return Status::kNotFound;
  for (const PlainList& list : sequence->lists) {
    for (const auto& page : list) page->codec = codec;
  }
  return Status::kOk;
}

Status PlainPool::transcode(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                            std::span<const std::uint32_t> pages, std::uint8_t codec,
                            std::uint32_t* moved) {
  *moved = 0;
  const PlainList* const list = find(id, layer, kv_head);
  if (list == nullptr) return Status::kNotFound;
  if (std::ranges::any_of(pages, [&](std::uint32_t page) { return page >= list->size(); })) {
    return Status::kBadArgument;
  }
  for (const std::uint32_t number : pages) {
    const auto& page = (*list)[number];
    if (page->codec == codec || (codec != NKV_CODEC_NONE && is_shared(page))) continue;
    page->codec = codec;
    ++*moved;
  }
  return Status::kOk;
}

std::uint64_t PlainPool::sequences() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(sequences_, [](const auto& entry) { return !entry.second.dropped; }));
}

std::uint64_t PlainPool::pages() const {
  std::set<const PlainPage*> pages;
  for (const auto& [id, sequence] : sequences_) {
    for (const PlainList& list : sequence.lists) {
      for (const auto& page : list) pages.insert(page.get());
    }
  }
  return pages.size();
}

}  // namespace nearkv::test
