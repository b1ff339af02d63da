#include "policy/evictor.hpp"

#include <cstddef>

namespace nearkv {
namespace {

constexpr std::size_t kLooks = 64;

}  // namespace

void Evictor::insert(const Entry& entry) {
  note_expiry(entry.id, entry.expires_s);
  try {
    policy_->insert(entry);
  } catch (...) {
    forget_expiry(entry.id);
    throw;
  }
}

void Evictor::erase(ObjectId id, Removal removal) {
  forget_expiry(id);
  policy_->erase(id, removal);
}

void Evictor::rename(ObjectId from, ObjectId to, std::span<const ObjectId> children) {
  note_expiry(to, from < expires_s_.size() ? expires_s_[from] : kNeverExpires);
  try {
    policy_->rename(from, to, children);
  } catch (...) {
    forget_expiry(to);
    throw;
  }
  forget_expiry(from);
}

void Evictor::note_expiry(ObjectId id, std::uint64_t expires_s) {
  if (expires_s == kNeverExpires) return;
  if (id >= expires_s_.size()) expires_s_.resize(std::size_t{id} + 1, kNeverExpires);
  expiries_.emplace(expires_s, id);
  expires_s_[id] = expires_s;
}

void Evictor::forget_expiry(ObjectId id) {
  if (id >= expires_s_.size() || expires_s_[id] == kNeverExpires) return;
  expiries_.erase({expires_s_[id], id});
  expires_s_[id] = kNeverExpires;
}

std::optional<ObjectId> Evictor::victim(std::uint64_t now_s, const Evictable& evictable) {
  if (const auto due = expired(now_s, evictable)) return due;
  return policy_->victim(evictable);
}

std::optional<ObjectId> Evictor::expired(std::uint64_t now_s, const Evictable& evictable) {
  const auto is_due = [&](auto at) { return at != expiries_.end() && at->first <= now_s; };
  if (!is_due(expiries_.begin())) return std::nullopt;
  auto at = expiries_.upper_bound(looked_at_);
  if (!is_due(at)) at = expiries_.begin();
  const auto start = at;
  for (std::size_t looks = 0; looks < kLooks; ++looks) {
    if (evictable(at->second)) return at->second;
    looked_at_ = *at;
    if (!is_due(++at)) at = expiries_.begin();
    if (at == start) break;
  }
  return std::nullopt;
}

}  // namespace nearkv
