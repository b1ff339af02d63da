#include "object/namespace_table.hpp"

#include <algorithm>
#include <cstring>

#include "object/object_key.hpp"
#include "page/checksum.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kBody = offsetof(nkv_namespace_record, tenant);

std::uint32_t body_checksum(const nkv_namespace_record& record) {
  return crc32c(std::as_bytes(std::span(&record, 1)).subspan(kBody));
}

/// All fields, each preceded by its length, so that no two namespaces have one encoding.
std::string encode(const Namespace& name) {
  std::string text;
  const auto add = [&](const std::string& field) {
    text += std::to_string(field.size()) + ":" + field + ",";
  };
  add(std::to_string(name.tenant));
  add(name.model);
  add(name.dtype);
  add(name.layout);
  add(std::to_string(name.rank));
  add(std::to_string(name.group));
  add(name.salt);
  return text;
}

}  // namespace

NamespaceInfo NamespaceTable::describe(const Namespace& name) {
  NamespaceInfo info;
  info.tenant = name.tenant;
  info.text = name.model + " " + name.dtype + " " + name.layout + " rank " +
              std::to_string(name.rank) + " group " + std::to_string(name.group);
  const std::string identity = encode(name);
  info.digest = sha256(std::as_bytes(std::span(identity)));
  return info;
}

NamespaceTable::NamespaceTable(PoolMemory* pool) : pool_(pool) {
  for (std::uint32_t number = 0; number < pool_->header().max_namespaces; ++number) {
    nkv_namespace_record record{};
    if (!take_up(number, &record)) continue;
    NamespaceDigest digest;
    std::ranges::copy(record.digest, digest.begin());
    if (numbers_.emplace(digest, number).second) {
      known_.emplace(number, Known{record.tenant, digest});
    }
  }
}

std::byte* NamespaceTable::place(std::uint32_t number, std::uint32_t copy) const {
  const std::size_t index = std::size_t{copy} * pool_->header().max_namespaces + number;
  return pool_->bytes().data() + pool_->header().namespaces_at +
         index * sizeof(nkv_namespace_record);
}

bool NamespaceTable::read(std::uint32_t number, nkv_namespace_record* record) const {
  for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
    std::memcpy(record, place(number, copy), sizeof(*record));
    if (record->state == NKV_OBJECT_STATE_LIVE && record->crc == body_checksum(*record)) {
      return true;
    }
  }
  return false;
}

/// The first copy may be in the caches only, left there by a process that died before its fence.
bool NamespaceTable::take_up(std::uint32_t number, nkv_namespace_record* record) {
  if (!read(number, record)) return false;
  if (!pool_->is_read_only() &&
      std::memcmp(place(number, 0), place(number, 1), sizeof(*record)) != 0) {
    write(number, *record);
  }
  return true;
}

void NamespaceTable::write(std::uint32_t number, const nkv_namespace_record& record) {
  Persistence& persistence = pool_->persistence();
  for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
    std::byte* const body = place(number, copy) + kBody;
    std::memcpy(body, std::as_bytes(std::span(&record, 1)).data() + kBody, sizeof(record) - kBody);
    persistence.write_back({body, sizeof(record) - kBody});
    persistence.fence();
    persistence.publish(place(number, copy),
                        NKV_OBJECT_STATE_LIVE | std::uint64_t{body_checksum(record)} << 32);
    persistence.fence();
  }
}

Status NamespaceTable::open(const Namespace& name, std::uint32_t* number) {
  return adopt(describe(name), number);
}

Status NamespaceTable::adopt(const NamespaceInfo& info, std::uint32_t* number) {
  if (info.text.size() > NKV_NAMESPACE_TEXT_BYTES) return Status::kBadArgument;
  const std::scoped_lock lock(mutex_);
  if (const auto found = numbers_.find(info.digest); found != numbers_.end()) {
    *number = found->second;
    return Status::kOk;
  }
  std::uint32_t free = 0;
  while (known_.contains(free)) ++free;
  if (free >= pool_->header().max_namespaces) return Status::kPoolFull;

  nkv_namespace_record record{};
  record.tenant = info.tenant;
  record.text_bytes = static_cast<std::uint32_t>(info.text.size());
  std::ranges::copy(info.digest, record.digest);
  std::ranges::copy(info.text, record.text);
  write(free, record);
  numbers_.emplace(info.digest, free);
  known_.emplace(free, Known{info.tenant, info.digest});
  *number = free;
  return Status::kOk;
}

std::optional<std::uint16_t> NamespaceTable::tenant(std::uint32_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return std::nullopt;
  return found->second.tenant;
}

std::optional<NamespaceDigest> NamespaceTable::digest(std::uint32_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return std::nullopt;
  return found->second.digest;
}

std::vector<NamespaceInfo> NamespaceTable::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<NamespaceInfo> infos;
  for (const auto& [number, known] : known_) {
    nkv_namespace_record record{};
    if (!read(number, &record)) continue;
    const std::size_t bytes =
        std::min<std::size_t>(record.text_bytes, std::size_t{NKV_NAMESPACE_TEXT_BYTES});
    NamespaceInfo info{
        number, known.tenant, {reinterpret_cast<const char*>(record.text), bytes}, {}};
    std::ranges::copy(record.digest, info.digest.begin());
    infos.push_back(std::move(info));
  }
  return infos;
}

std::size_t NamespaceTable::size() const {
  const std::scoped_lock lock(mutex_);
  return known_.size();
}

}  // namespace nearkv
