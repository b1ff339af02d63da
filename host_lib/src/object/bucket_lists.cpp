#include "object/bucket_lists.hpp"

#include <bit>

#include "object/grain_bitmap.hpp"

namespace nearkv {

BucketLists::BucketLists(std::size_t keys, std::size_t members)
    : heads_(keys, kNone), used_((keys + kWordBits - 1) / kWordBits), links_(members) {}

void BucketLists::insert(std::uint32_t key, std::uint32_t member) {
  links_[member] = {kNone, heads_[key]};
  if (heads_[key] != kNone) links_[heads_[key]].previous = member;
  heads_[key] = member;
  used_[key / kWordBits] |= std::uint64_t{1} << key % kWordBits;
}

void BucketLists::remove(std::uint32_t key, std::uint32_t member) {
  const Link link = links_[member];
  if (link.next != kNone) links_[link.next].previous = link.previous;
  if (link.previous != kNone) {
    links_[link.previous].next = link.next;
    return;
  }
  heads_[key] = link.next;
  if (link.next == kNone) used_[key / kWordBits] &= ~(std::uint64_t{1} << key % kWordBits);
}

std::optional<std::uint32_t> BucketLists::least(std::uint32_t key) const {
  std::size_t word = key / kWordBits;
  if (word >= used_.size()) return std::nullopt;
  std::uint64_t bits = used_[word] >> key % kWordBits << key % kWordBits;
  while (bits == 0) {
    if (++word == used_.size()) return std::nullopt;
    bits = used_[word];
  }
  return static_cast<std::uint32_t>(word * kWordBits) +
         static_cast<std::uint32_t>(std::countr_zero(bits));
}

std::optional<std::uint32_t> BucketLists::greatest() const {
  for (std::size_t word = used_.size(); word-- > 0;) {
    if (used_[word] == 0) continue;
    return static_cast<std::uint32_t>(word * kWordBits) +
           static_cast<std::uint32_t>(std::bit_width(used_[word]) - 1);
  }
  return std::nullopt;
}

}  // namespace nearkv
