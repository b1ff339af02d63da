// What somebody may have written into a pool's memory: whatever it is, opening and using it as an
// object store and as a pool of sequences harms nobody, and no key gives bytes that its record's
// checksum is not right for.
//
// An input is a list of changes to a valid pool (struct ImageChange).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "object/object_key.hpp"
#include "object/part_range.hpp"
#include "page/checksum.hpp"
#include "pool_image.hpp"
#include "support/objects.hpp"
#include "target.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kRoomBytes = 512 << 10;
constexpr std::size_t kMostChanges = 12;
constexpr std::uint16_t kDim = 16;

/// Stops the target, so that both drivers take notice.
void demand(bool holds) {
  if (!holds) std::abort();
}

std::uint32_t payload_checksum(const nkv_object_record& record, std::span<const std::byte> bytes) {
  if (record.parts == 0) return crc32c(bytes);
  std::vector<std::uint32_t> parts(record.parts);
  for (std::uint32_t part = 0; part < record.parts; ++part) {
    const PartRange range = part_range(record, part, 1);
    parts[part] = crc32c(bytes.subspan(range.offset, range.bytes));
  }
  return crc32c(std::as_bytes(std::span(parts)));
}

/// A pool's memory, and where things lie in it.
struct Region {
  std::span<std::byte> memory;
  nkv_pool_header header{};
};

/// Whether some live record in the memory stands for these bytes under this key.
bool is_recorded(const Region& region, std::uint32_t space, const Bytes& key, const Bytes& bytes) {
  const auto& [memory, header] = region;
  const StoredKey stored(key);
  for (std::size_t i = 0; i < header.max_objects; ++i) {
    nkv_object_record record{};
    const auto place = memory.subspan(header.objects_at + i * sizeof(record), sizeof(record));
    std::memcpy(&record, place.data(), sizeof(record));
    if (record.state == NKV_OBJECT_STATE_LIVE && stored.matches(record, space) &&
        record.crc == crc32c(place.subspan(offsetof(nkv_object_record, generation))) &&
        record.bytes == bytes.size() && record.payload_crc == payload_checksum(record, bytes)) {
      return true;
    }
  }
  return false;
}

void read_objects(ObjectStore* store, const Region& region, std::span<const std::uint32_t> spaces) {
  Bytes found;
  for (const std::uint32_t space : spaces) {
    for (std::size_t number = 0; number < kImageKeys; ++number) {
      const Bytes key = key_of(number);
      const Status status = get(store, space, key, &found, kRoomBytes);
      demand(status != Status::kInternal);
      if (status == Status::kOk) demand(is_recorded(region, space, key, found));
    }
  }
}

void use_store(std::span<std::byte> memory) {
  Region region{memory};
  const std::unique_ptr<ObjectStore> store = open_image_store(memory, &region.header);
  if (store == nullptr) return;
  const std::vector<std::uint32_t> spaces = open_image_spaces(store.get());
  (void)store->namespaces();
  (void)store->list(0, 100);
  read_objects(store.get(), region, spaces);
  std::uint64_t moved = 1;
  for (int round = 0; round < 8 && moved != 0; ++round) {
    demand(store->defragment(1 << 30, &moved) == Status::kOk);
  }
  const Bytes data = contents(7, 100 << 10);
  std::vector<Bytes> keys;
  std::vector<Key> chain;
  for (std::size_t number = 0; number < kImageKeys; number += 5) keys.push_back(key_of(number));
  for (const Bytes& key : keys) chain.emplace_back(key);
  for (const std::uint32_t space : spaces) {
    (void)store->match_prefix(space, chain);
    (void)store->exists(space, chain);
    store->touch(space, chain);
    std::vector<Status> statuses(chain.size());
    const LeaseId lease = store->pin(space, chain, std::chrono::seconds(1), statuses);
    // More than there is room for.
    for (std::size_t number = 0; number < kImageKeys; number += 2) {
      Job options;
      options.overwrite = number % 4 == 0;
      options.parts = static_cast<std::uint16_t>(number % 3 * 2);
      options.chain = number % 8 == 6;
      const Status status = set(store.get(), space, key_of(number), data, options);
      demand(status != Status::kInternal);
    }
    if (lease != 0) (void)store->unpin(lease);
    (void)erase(store.get(), space, key_of(2));
  }
  for (std::uint16_t tenant = 0; tenant < kImageSpaces; ++tenant) {
    (void)store->set_quota(tenant, 200 << 10);
  }
  VerifyProgress progress;
  demand(store->verify(0, 1000, &progress) == Status::kOk);
  demand(store->defragment(1 << 30, &moved) == Status::kOk);
  read_objects(store.get(), region, spaces);
  (void)store->stats();
}

void attend(Pool* pool, std::uint64_t id, ColdPages cold) {
  const std::vector<std::uint16_t> query(kDim, 0x3F80);
  std::array<float, kDim> output;
  std::array<float, 1> lse;
  AttendRequest request;
  request.sequence = id;
  request.query = std::as_bytes(std::span(query));
  request.output = output;
  request.lse = lse;
  for (const std::uint8_t mode : {NKV_ATTEND_MODE_DENSE, NKV_ATTEND_MODE_TAIL}) {
    AttendOptions options;
    options.mode = mode;
    options.cold = cold;
    demand(pool->attend(std::span(&request, 1), options) != Status::kInternal);
  }
}

/// What is found are tokens that there are, and none of a page that was to be skipped.
void search(Pool* pool, std::uint64_t id, ColdPages cold) {
  const std::vector<std::uint16_t> query(kDim, 0x3F80);
  std::array<std::uint32_t, 8> ids;
  std::array<float, 8> scores;
  std::array<std::uint32_t, 1> counts;
  Pool::TopKRequest top;
  top.sequence = id;
  top.kv_head = 1;
  top.top_k = ids.size();
  top.mode = NKV_SELECT_STATISTICAL;
  top.cold = cold;
  top.query = std::as_bytes(std::span(query));
  top.ids = ids;
  top.scores = scores;
  top.counts = counts;
  const Status status = pool->top_k(top);
  demand(status != Status::kInternal);
  if (status != Status::kOk) return;
  std::vector<std::uint8_t> codecs;
  demand(pool->codecs(id, 0, 1, &codecs) == Status::kOk && counts[0] <= ids.size());
  for (const std::uint32_t token : std::span(ids).first(counts[0])) {
    demand(token / NKV_PAGE_TOKENS < codecs.size());
    demand(cold == ColdPages::kDecode || codecs[token / NKV_PAGE_TOKENS] == NKV_CODEC_NONE);
  }
}

void query(Pool* pool, std::uint64_t id) {
  for (const ColdPages cold : {ColdPages::kRefuse, ColdPages::kSkip, ColdPages::kDecode}) {
    attend(pool, id, cold);
    search(pool, id, cold);
  }
}

void use_sequence(Pool* pool, std::uint64_t id) {
  std::uint32_t tokens = 0;
  if (pool->tokens(id, 0, &tokens) != Status::kOk) return;
  std::uint64_t pages = 0;
  demand(pool->scrub(id, &pages) != Status::kInternal);
  query(pool, id);
  demand(pool->transcode(id, NKV_CODEC_NONE) != Status::kInternal);
  demand(pool->transcode(id, NKV_CODEC_PLANES_ZSTD) != Status::kInternal);
  demand(pool->transcode(id, NKV_CODEC_NONE) != Status::kInternal);
  std::vector<std::uint32_t> every_other;
  for (std::uint32_t page = 0; page < tokens / NKV_PAGE_TOKENS; page += 2) {
    every_other.push_back(page);
  }
  std::uint32_t moved = 0;
  for (std::uint16_t head = 0; head < 2; ++head) {
    demand(pool->transcode(id, 0, head, every_other, NKV_CODEC_PLANES_LZ4, &moved) !=
           Status::kInternal);
    demand(moved <= every_other.size());
  }
  query(pool, id);
  demand(pool->transcode(id, NKV_CODEC_NONE) != Status::kInternal);
  if (tokens != 0) {
    const std::uint32_t count = std::min<std::uint32_t>(tokens, 4 * NKV_PAGE_TOKENS);
    Bytes keys(count * kDim * 2);
    Bytes values(keys.size());
    demand(pool->read(id, 0, 0, tokens - count, count, keys, values) != Status::kInternal);
    const std::array<std::uint32_t, 2> chosen{0, tokens - 1};
    const std::size_t bytes = chosen.size() * kDim * 2;
    demand(pool->gather(id, 0, 1, chosen, std::span(keys).first(bytes),
                        std::span(values).first(bytes)) != Status::kInternal);
  }
  const std::vector<std::uint16_t> rows = image_rows(2 * NKV_PAGE_TOKENS, id);
  const HostRows host{reinterpret_cast<const std::byte*>(rows.data()), 2 * kDim * 2, kDim * 2};
  demand(pool->append(id, 0, host, host, 2 * NKV_PAGE_TOKENS) != Status::kInternal);
  demand(pool->fork(id, id + 100, tokens) != Status::kInternal);
  if (id % 2 == 0) demand(pool->drop(id) == Status::kOk);
}

void use_pool(std::span<std::byte> memory) {
  PoolUsage left;
  for (int life = 0; life < 2; ++life) {
    const std::unique_ptr<Pool> pool = open_image_pool(memory);
    if (pool == nullptr) return;
    // What one life left the next finds.
    if (life == 1) demand(pool->usage().sequences == left.sequences);
    if (life == 1) demand(pool->usage().pages == left.pages);
    for (std::uint64_t id = 0; id < kImageSequences; ++id) use_sequence(pool.get(), id);
    left = pool->usage();
  }
}

}  // namespace
}  // namespace nearkv::test

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nearkv::test;
  const ImageMemory memory(pool_image());
  const std::size_t changes = std::min(size / kChangeBytes, kMostChanges);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::span<const std::uint8_t, kChangeBytes> bytes(data + i * kChangeBytes, kChangeBytes);
    apply_change(decode_change(bytes), memory.bytes());
  }
  use_store(memory.bytes());
  use_pool(memory.bytes());
  return 0;
}

namespace nearkv::test {

const char* const mutation_fault = "mutated pool: index scan and recovery";
const int mutation_runs = 1200;

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs{{}};
  const auto add = [&](ImageChange::Kind kind, std::uint16_t bytes, std::uint8_t indexes) {
    for (std::uint16_t offset = 0; offset < bytes;
         offset = static_cast<std::uint16_t>(offset + 4)) {
      ImageChange change;
      change.kind = kind;
      change.index = static_cast<std::uint8_t>(offset / 4 % indexes);
      change.offset = offset;
      change.width = offset % 8 == 0 ? 4 : 1;
      change.adds = offset % 3 == 0;
      change.value = offset % 5 == 0 ? 0xFFFFFFFF : 1;
      inputs.emplace_back();
      encode_change(change, &inputs.back());
    }
  };
  using Kind = ImageChange::Kind;
  add(Kind::kPoolHeader, sizeof(nkv_pool_header), 1);
  add(Kind::kSlabRecord, 16, 4);
  add(Kind::kNamespaceRecord, 64, 2);
  add(Kind::kObjectRecord, sizeof(nkv_object_record), 20);
  add(Kind::kExtentList, 64, 1);
  add(Kind::kSequenceRecord, sizeof(nkv_sequence_record), 4);
  add(Kind::kPageHeader, sizeof(nkv_page_header), 10);
  add(Kind::kPagePayload, 32, 10);
  add(Kind::kObjectPayload, 16, 20);
  add(Kind::kAnyByte, 16, 200);
  add(Kind::kCopyObjectRecord, 32, 20);
  add(Kind::kCopySequenceRecord, 16, 6);
  add(Kind::kLinkObject, 64, 20);
  // Blocks that come after themselves, alone and in twos.
  for (std::uint8_t first = 0; first < 4; ++first) {
    for (const std::uint8_t second : {first, static_cast<std::uint8_t>(first + 2)}) {
      inputs.emplace_back();
      ImageChange change;
      change.kind = Kind::kLinkObject;
      for (const auto& [block, parent] : {std::pair(first, second), std::pair(second, first)}) {
        change.index = block;
        change.value = parent;
        encode_change(change, &inputs.back());
      }
    }
  }
  return inputs;
}

}  // namespace nearkv::test
