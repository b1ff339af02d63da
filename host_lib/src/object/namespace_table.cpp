#include "object/namespace_table.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include "object/object_key.hpp"
#include "page/checksum.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kBody = offsetof(nkv_namespace_record, tenant);
constexpr std::size_t kPieceBytes = NKV_NAMESPACE_RECORD_TEXT_BYTES;  // Of a name, in one record.

std::uint32_t checksum_of(const nkv_namespace_record& record) {
  const std::uint32_t body = crc32c(std::as_bytes(std::span(&record, 1)).subspan(kBody));
  return body ^ record.state ^ NKV_OBJECT_STATE_LIVE;  // A wrong bit in the state shows, too.
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

NamespaceDigest digest_of(const nkv_namespace_record& record) {
  NamespaceDigest digest;
  std::ranges::copy(record.digest, digest.begin());
  return digest;
}

/// Puts a record's piece of a name where it belongs.
void put_piece(const nkv_namespace_record& record, std::size_t offset, std::string* text) {
  const std::size_t bytes = std::min<std::size_t>(text->size() - offset, sizeof(record.text));
  std::memcpy(text->data() + offset, record.text, bytes);
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

NamespaceTable::NamespaceTable(PoolMemory* pool)
    : pool_(pool), rounds_(pool->header().max_namespaces) {
  std::map<std::pair<NamespaceDigest, std::size_t>, std::uint32_t> pieces;
  nkv_namespace_record record{};
  for (std::uint32_t place = 0; place < rounds_.size(); ++place) {
    free_.insert(place);
    if (!take_up(place, &record)) continue;
    rounds_[place] = record.round;
    const NamespaceDigest digest = digest_of(record);
    if (record.state == NKV_OBJECT_STATE_CONTINUED) {
      pieces.emplace(std::pair(digest, std::size_t{record.text_bytes}), place);
    }
    const std::optional<std::uint32_t> number = number_of(place, record.round);
    if (record.state != NKV_OBJECT_STATE_LIVE || !number ||
        !numbers_.emplace(digest, *number).second) {
      continue;
    }
    free_.erase(place);
    Known& known = known_[*number];
    known.places = {place};
    known.info.number = *number;
    known.info.tenant = record.tenant;
    known.info.digest = digest;
    known.info.text.resize(std::min<std::size_t>(record.text_bytes, NKV_NAMESPACE_TEXT_BYTES));
    put_piece(record, 0, &known.info.text);
  }
  for (auto& [number, known] : known_) {
    std::string& text = known.info.text;
    for (std::size_t offset = kPieceBytes; offset < text.size(); offset += kPieceBytes) {
      const auto piece = pieces.find({known.info.digest, offset});
      if (piece == pieces.end() || !read(piece->second, &record)) {
        text.resize(offset);  // Its rest is damaged. The digest says which namespace it is.
        break;
      }
      put_piece(record, offset, &text);
      known.places.push_back(piece->second);
      free_.erase(piece->second);
    }
  }
}

std::byte* NamespaceTable::at(std::uint32_t place, std::uint32_t copy) const {
  const std::size_t index = std::size_t{copy} * rounds_.size() + place;
  return pool_->bytes().data() + pool_->header().namespaces_at +
         index * sizeof(nkv_namespace_record);
}

bool NamespaceTable::read(std::uint32_t place, nkv_namespace_record* record) const {
  for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
    std::memcpy(record, at(place, copy), sizeof(*record));
    if (record->crc == checksum_of(*record)) return true;
  }
  return false;
}

/// The first copy may be in the caches only, left there by a process that died before its fence.
bool NamespaceTable::take_up(std::uint32_t place, nkv_namespace_record* record) {
  if (!read(place, record)) return false;
  if (!pool_->is_read_only() && std::memcmp(at(place, 0), at(place, 1), sizeof(*record)) != 0) {
    write(place, *record);
  }
  return true;
}

void NamespaceTable::write(std::uint32_t place, const nkv_namespace_record& record) {
  Persistence& persistence = pool_->persistence();
  for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
    std::byte* const body = at(place, copy) + kBody;
    std::memcpy(body, std::as_bytes(std::span(&record, 1)).data() + kBody, sizeof(record) - kBody);
    persistence.write_back({body, sizeof(record) - kBody});
    persistence.fence();
    persistence.publish(at(place, copy), record.state | std::uint64_t{checksum_of(record)} << 32);
    persistence.fence();
  }
}

std::optional<std::uint32_t> NamespaceTable::number_of(std::uint32_t place,
                                                       std::uint32_t round) const {
  const std::uint64_t number = place + std::uint64_t{round} * rounds_.size();
  if (number >= std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::uint16_t NamespaceTable::next_round(std::uint32_t place) const {
  if (!rounds_[place]) return 0;
  const auto next = static_cast<std::uint16_t>(*rounds_[place] + 1);
  return number_of(place, next) ? next : 0;
}

Status NamespaceTable::open(const Namespace& name, std::uint32_t* number) {
  if (name.model.size() + name.dtype.size() + name.layout.size() > NKV_NAMESPACE_NAME_BYTES) {
    return Status::kNameTooLong;
  }
  const std::scoped_lock lock(mutex_);
  const auto most = most_.find(name.tenant);
  return take(describe(name), most != most_.end() ? most->second : ~0U, number);
}

Status NamespaceTable::adopt(const NamespaceInfo& info, std::uint32_t* number) {
  if (info.text.size() > NKV_NAMESPACE_TEXT_BYTES) return Status::kNameTooLong;
  const std::scoped_lock lock(mutex_);
  return take(info, ~0U, number);
}

Status NamespaceTable::take(const NamespaceInfo& info, std::uint32_t most, std::uint32_t* number) {
  if (const auto found = numbers_.find(info.digest); found != numbers_.end()) {
    ++known_.at(found->second).info.users;
    *number = found->second;
    return Status::kOk;
  }
  const auto is_theirs = [&](const auto& entry) { return entry.second.info.tenant == info.tenant; };
  while (std::ranges::count_if(known_, is_theirs) >= std::int64_t{most}) {
    if (!release_unused(info.tenant)) return Status::kNamespacesFull;
  }
  const std::size_t pieces =
      std::max<std::size_t>(1, (info.text.size() + kPieceBytes - 1) / kPieceBytes);
  while (free_.size() < pieces) {
    if (!release_unused(std::nullopt)) return Status::kNamespacesFull;
  }
  Known known{info, {}};
  const auto first = free_.begin();
  known.places.assign(first, std::next(first, static_cast<std::ptrdiff_t>(pieces)));
  // The first piece makes it a namespace, and so comes last.
  for (std::size_t piece = pieces; piece-- > 0;) {
    const std::uint32_t place = known.places[piece];
    const std::string_view text =
        std::string_view(info.text).substr(piece * kPieceBytes, kPieceBytes);
    nkv_namespace_record record{};
    record.state = piece == 0 ? NKV_OBJECT_STATE_LIVE : NKV_OBJECT_STATE_CONTINUED;
    record.tenant = info.tenant;
    record.round = next_round(place);
    record.text_bytes =
        static_cast<std::uint32_t>(piece == 0 ? info.text.size() : piece * kPieceBytes);
    std::ranges::copy(info.digest, record.digest);
    std::ranges::copy(text, record.text);
    write(place, record);
    rounds_[place] = record.round;
    free_.erase(place);
  }
  *number = *number_of(known.places.front(), *rounds_[known.places.front()]);
  known.info.number = *number;
  known.info.users = 1;
  known.info.objects = 0;
  numbers_.emplace(info.digest, *number);
  known_.emplace(*number, std::move(known));
  return Status::kOk;
}

bool NamespaceTable::release_unused(std::optional<std::uint16_t> tenant) {
  const auto found = std::ranges::find_if(known_, [&](const auto& entry) {
    const NamespaceInfo& info = entry.second.info;
    return info.users == 0 && info.objects == 0 && tenant.value_or(info.tenant) == info.tenant;
  });
  if (found == known_.end()) return false;
  const Known& known = found->second;
  nkv_namespace_record record{};
  if (read(known.places.front(), &record)) {
    record.state = NKV_OBJECT_STATE_FREE;
    write(known.places.front(), record);
  }
  free_.insert(known.places.begin(), known.places.end());
  numbers_.erase(known.info.digest);
  known_.erase(found);
  return true;
}

Status NamespaceTable::close(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end() || found->second.info.users == 0) return Status::kNotFound;
  --found->second.info.users;
  return Status::kOk;
}

void NamespaceTable::limit(std::uint16_t tenant, std::uint32_t most) {
  const std::scoped_lock lock(mutex_);
  most_[tenant] = most;
}

std::optional<std::uint16_t> NamespaceTable::hold(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return std::nullopt;
  ++found->second.info.objects;
  return found->second.info.tenant;
}

void NamespaceTable::drop(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  --known_.at(number).info.objects;
}

std::optional<std::uint16_t> NamespaceTable::tenant(std::uint32_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return std::nullopt;
  return found->second.info.tenant;
}

std::optional<NamespaceDigest> NamespaceTable::digest(std::uint32_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return std::nullopt;
  return found->second.info.digest;
}

std::vector<NamespaceInfo> NamespaceTable::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<NamespaceInfo> infos;
  infos.reserve(known_.size());
  for (const auto& [number, known] : known_) infos.push_back(known.info);
  return infos;
}

std::size_t NamespaceTable::size() const {
  const std::scoped_lock lock(mutex_);
  return known_.size();
}

}  // namespace nearkv
