#include "object/record_table.hpp"

#include <atomic>
#include <cstring>

#include "media/guarded.hpp"
#include "page/checksum.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kBody = offsetof(nkv_object_record, generation);

std::uint32_t body_checksum(const std::byte* record) {
  return crc32c({record + kBody, sizeof(nkv_object_record) - kBody});
}

}  // namespace

RecordTable::RecordTable(PoolMemory* pool)
    : persistence_(&pool->persistence()),
      first_(pool->bytes().data() + pool->header().objects_at),
      size_(pool->header().max_objects) {}

template <typename Access>
Status RecordTable::access(ObjectId id, Access&& access) const {
  std::uintptr_t fault = 0;
  const Status status = guarded({place(id), sizeof(nkv_object_record)}, access, &fault);
  if (status != Status::kOk) {
    const std::scoped_lock lock(mutex_);
    poisoned_.insert(id);
  }
  return status;
}

std::optional<ObjectId> RecordTable::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const ObjectId id = free_.back();
  free_.pop_back();
  return id;
}

void RecordTable::release(ObjectId id) {
  const std::scoped_lock lock(mutex_);
  if (!poisoned_.contains(id)) free_.push_back(id);
}

void RecordTable::release_unused(const std::vector<bool>& used) {
  const std::scoped_lock lock(mutex_);
  free_.clear();
  free_.reserve(size_);
  for (std::size_t id = size_; id-- > 0;) {
    const auto record = static_cast<ObjectId>(id);
    if (!used[id] && !poisoned_.contains(record)) free_.push_back(record);
  }
}

Status RecordTable::read(ObjectId id, nkv_object_record* record) const {
  // The first word may be published meanwhile; what is behind it, only while nobody uses it.
  const auto copy = [&] {
    auto& word = *reinterpret_cast<std::uint64_t*>(place(id));
    const std::uint64_t published =
        std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
    std::memcpy(record, &published, sizeof(published));
    std::memcpy(reinterpret_cast<std::byte*>(record) + kBody, place(id) + kBody,
                sizeof(*record) - kBody);
  };
  const Status status = access(id, copy);
  if (status != Status::kOk) return status;
  if (record->state == NKV_OBJECT_STATE_FREE) return Status::kNotFound;
  const bool whole = record->crc == body_checksum(reinterpret_cast<const std::byte*>(record));
  return whole ? Status::kOk : Status::kCorrupt;
}

bool RecordTable::holds(ObjectId id, const StoredKey& key, std::uint32_t namespace_number) const {
  const std::span<const std::byte> found(place(id), sizeof(nkv_object_record));
  std::uintptr_t fault = 0;
  bool same = false;
  const auto compare = [&] {
    same = key.matches(*reinterpret_cast<const nkv_object_record*>(found.data()), namespace_number);
  };
  return guarded(found, compare, &fault) == Status::kOk && same;
}

Status RecordTable::write(ObjectId id, const nkv_object_record& record) {
  const auto body = std::as_bytes(std::span(&record, 1)).subspan(kBody);
  return access(id, [&] {
    std::memcpy(place(id) + kBody, body.data(), body.size());
    persistence_->write_back({place(id) + kBody, body.size()});
  });
}

Status RecordTable::write_back(ObjectId begin, ObjectId end) const {
  const std::span<const std::byte> records(place(begin), place(end));
  std::uintptr_t fault = 0;
  return guarded(records, [&] { persistence_->write_back(records); }, &fault);
}

Status RecordTable::publish(ObjectId id, std::uint32_t state) {
  return access(id, [&] {
    const std::uint64_t crc = state == NKV_OBJECT_STATE_FREE ? 0 : body_checksum(place(id));
    persistence_->publish(place(id), state | crc << 32);
  });
}

}  // namespace nearkv
