#include "pool_image.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <stdexcept>

#include "device/cpu_device.hpp"
#include "object/fingerprint.hpp"
#include "object/local_store.hpp"
#include "page/checksum.hpp"
#include "page/page_view.hpp"
#include "pool/pool_access.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kImageBytes = 2688 << 10;
constexpr std::uint16_t kHeads = 2;
constexpr std::size_t kDim = 16;
constexpr std::uint32_t kObjectBytes = 64 << 10;

void check(Status status) {
  if (status != Status::kOk) throw std::runtime_error(std::string(message(status)));
}

PoolPlan image_plan() {
  PoolPlan plan;
  std::string reason;
  if (PoolPlan::make(kImageBytes, image_options(), &plan, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  return plan;
}

PoolMemory::Source source_of(std::span<std::byte> memory) {
  return {memory, nullptr, Persistence::make(Durability::kProcess)};
}

std::unique_ptr<Pool> open_sequences(std::shared_ptr<PoolMemory> memory) {
  Workers::Options workers;
  workers.threads = 1;
  CpuDevice::Backing backing{memory->bytes(), nullptr, Persistence::make(Durability::kProcess),
                             Durability::kProcess};
  auto device = std::make_shared<CpuDevice>(std::move(backing), workers);
  std::unique_ptr<Pool> pool;
  std::string reason;
  const Status status = PoolAccess::open(std::move(device), image_options(), image_plan(),
                                         std::move(memory), &pool, &reason);
  return status == Status::kOk ? std::move(pool) : nullptr;
}

std::unique_ptr<ObjectStore> open_objects(std::shared_ptr<PoolMemory> memory) {
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  ObjectStore::Options options;
  options.defragment_above = 0;  // What happens when is the input's alone.
  const Status status = LocalStore::open(std::move(memory), options, &store, &reason);
  return status == Status::kOk ? std::move(store) : nullptr;
}

void append_pages(Pool* pool, std::uint64_t sequence, std::uint32_t pages) {
  const std::uint32_t tokens = pages * NKV_PAGE_TOKENS;
  const std::vector<std::uint16_t> rows = image_rows(tokens, sequence);
  const HostRows host{reinterpret_cast<const std::byte*>(rows.data()), kHeads * kDim * 2, kDim * 2};
  check(pool->append(sequence, 0, host, host, tokens));
}

void fill_sequences(Pool* pool) {
  check(pool->create_sequence(0));
  append_pages(pool, 0, 3);
  check(pool->fork(0, 1, 2 * NKV_PAGE_TOKENS));
  append_pages(pool, 1, 1);
  check(pool->fork(1, 2, 3 * NKV_PAGE_TOKENS));
  append_pages(pool, 2, 2);
  check(pool->drop(1));
  check(pool->create_sequence(3));
  append_pages(pool, 3, 2);
  check(pool->transcode(3, NKV_CODEC_PLANES_LZ4));
  // In one KV head the last page but one is compressed, in the other the last.
  std::uint32_t moved = 0;
  for (std::uint16_t head = 0; head < kHeads; ++head) {
    check(pool->transcode(2, 0, head, std::array{3U + head}, NKV_CODEC_PLANES_LZ4, &moved));
  }
}

void fill_objects(ObjectStore* store, std::uint64_t free_bytes) {
  const std::vector<std::uint32_t> spaces = open_image_spaces(store);
  const auto put = [&](std::size_t key, std::uint32_t bytes, std::uint16_t parts) {
    // Keys of a namespace that follow each other are blocks of a prefix.
    const Bytes parent = key_of(key - std::min<std::size_t>(key, kImageSpaces));
    Job options;
    options.parts = parts;
    options.chain = true;
    if (key >= kImageSpaces) options.parent = parent;
    return set(store, spaces[key % kImageSpaces], key_of(key), contents(key, bytes), options);
  };
  // Nearly all space is taken, and every other object goes: what comes next is in many pieces.
  const std::size_t filling = free_bytes / kObjectBytes - 1;
  for (std::size_t key = 0; key < filling; ++key) {
    check(put(key, kObjectBytes - 64, static_cast<std::uint16_t>(key % 3 == 0 ? 4 : 0)));
  }
  for (std::size_t gone = 1; gone < filling; gone += 2) {
    check(erase(store, spaces[gone % kImageSpaces], key_of(gone)));
  }
  check(put(kImageKeys - 1, 6 * kObjectBytes + 5, 0));
  check(put(kImageKeys - 2, 100, 2));
  const auto in_pieces = [](const ObjectInfo& info) { return info.extents > NKV_RECORD_EXTENTS; };
  if (store->stats().evictions != 0 || std::ranges::none_of(store->list(0, 100), in_pieces)) {
    throw std::runtime_error("the image is not as small as it was meant to be");
  }
}

template <typename T>
T load(std::span<const std::byte> memory, std::uint64_t at) {
  T value{};
  std::memcpy(&value, memory.data() + at, sizeof(value));
  return value;
}

template <typename T>
void store_at(std::span<std::byte> memory, std::uint64_t at, const T& value) {
  std::memcpy(memory.data() + at, &value, sizeof(value));
}

/// The layout that all changes go by, whatever the header says by now.
const nkv_pool_header& layout() {
  static const auto header = load<nkv_pool_header>(pool_image(), 0);
  return header;
}

/// Where pages start in the image.
const std::vector<std::uint64_t>& page_places() {
  static const std::vector<std::uint64_t> places = [] {
    std::vector<std::uint64_t> found;
    for (std::uint64_t at = layout().data_at; at + sizeof(nkv_page_header) <= pool_image().size();
         at += NKV_PAGE_GRAIN_BYTES) {
      const auto header = load<nkv_page_header>(pool_image(), at);
      if (header.magic == NKV_PAGE_MAGIC && header.crc_hot == hot_checksum(header)) {
        found.push_back(at);
      }
    }
    return found;
  }();
  return places;
}

void change_bytes(const ImageChange& change, std::span<std::byte> place) {
  const std::size_t at = change.offset % place.size() / change.width * change.width;
  const std::size_t width = std::min<std::size_t>(change.width, place.size() - at);
  std::uint64_t value = change.value | std::uint64_t{change.value} << 32;
  if (change.adds) {
    std::uint64_t old = 0;
    std::memcpy(&old, place.data() + at, width);
    value = old + change.value;
  }
  std::memcpy(place.data() + at, &value, width);
}

/// A record that starts with its state and the checksum of what follows both.
void seal_record(std::span<std::byte> record) {
  const std::uint32_t crc = crc32c(record.subspan(2 * sizeof(std::uint32_t)));
  std::memcpy(record.data() + sizeof(crc), &crc, sizeof(crc));
}

void seal_sequence(std::span<std::byte> record) {
  std::vector<std::byte> covered(record.begin(), record.begin() + 4);
  covered.insert(covered.end(), record.begin() + 8, record.end());
  store_at(record, 4, crc32c(covered));
}

void change_pool_header(const ImageChange& change, std::span<std::byte> memory) {
  const std::span<std::byte> header = memory.first(sizeof(nkv_pool_header));
  change_bytes(change, header);
  if (!change.sealed) return;
  store_at(header, offsetof(nkv_pool_header, crc),
           crc32c(header.first(offsetof(nkv_pool_header, crc))));
  std::ranges::copy(header, memory.begin() + NKV_POOL_HEADER_COPY_AT);
}

/// Changes record `index` of a table with `copies` copies of `count` records.
template <typename Record, typename Seal>
void change_table(const ImageChange& change, std::span<std::byte> memory, std::uint64_t table_at,
                  std::size_t count, std::size_t copies, Seal seal) {
  const std::uint64_t at = table_at + change.index % count * sizeof(Record);
  const std::span<std::byte> record = memory.subspan(at, sizeof(Record));
  change_bytes(change, record);
  if (!change.sealed) return;
  seal(record);
  for (std::size_t copy = 1; copy < copies; ++copy) {
    std::ranges::copy(record, memory.subspan(at + copy * count * sizeof(Record)).begin());
  }
}

void seal_slab(std::span<std::byte> record) {
  const std::uint32_t crc = crc32c(record.first(sizeof(std::uint32_t)));
  store_at(record, offsetof(nkv_slab_record, crc), crc);
  std::ranges::copy(record.first(8), record.begin() + 8);
}

std::uint64_t object_record_at(std::size_t index) {
  return layout().objects_at + index % layout().max_objects * sizeof(nkv_object_record);
}

/// Where a grain of the image lies, if that is in the memory.
std::span<std::byte> grain_at(std::span<std::byte> memory, std::uint64_t grain) {
  const std::uint64_t at = grain * NKV_OBJECT_GRAIN_BYTES;
  if (at + NKV_OBJECT_GRAIN_BYTES > memory.size()) return {};
  return memory.subspan(at, NKV_OBJECT_GRAIN_BYTES);
}

void change_extent_list(const ImageChange& change, std::span<std::byte> memory) {
  for (std::size_t index = 0; index < layout().max_objects; ++index) {
    const auto record = load<nkv_object_record>(memory, object_record_at(change.index + index));
    const std::span<std::byte> grain = grain_at(memory, record.extent_first[0]);
    if (record.state != NKV_OBJECT_STATE_LIVE || record.extents <= NKV_RECORD_EXTENTS ||
        grain.empty()) {
      continue;
    }
    change_bytes(
        change, grain.first(std::min<std::size_t>(record.extents, 64) * sizeof(nkv_object_extent)));
    if (change.sealed) {
      store_at(grain, NKV_EXTENT_LIST_CRC_AT, crc32c(grain.first(NKV_EXTENT_LIST_CRC_AT)));
    }
    return;
  }
}

void change_page(const ImageChange& change, std::span<std::byte> memory) {
  const std::uint64_t at = page_places()[change.index % page_places().size()];
  const std::span<std::byte> page = memory.subspan(at);
  if (change.kind == ImageChange::Kind::kPageHeader) {
    change_bytes(change, page.first(sizeof(nkv_page_header)));
  }
  auto header = load<nkv_page_header>(page, 0);
  const std::size_t payload_bytes =
      std::min<std::size_t>(header.payload_bytes, page.size() - sizeof(header));
  const std::span<std::byte> payload = page.subspan(sizeof(header), payload_bytes);
  if (change.kind == ImageChange::Kind::kPagePayload && !payload.empty()) {
    change_bytes(change, payload);
  }
  if (!change.sealed) return;
  if (header.codec != NKV_CODEC_NONE) header.crc_v_exceptions = crc32c(payload);
  header.crc_hot = hot_checksum(header);
  header.crc_cold = cold_checksum(header);
  store_at(page, 0, header);
}

void change_object_payload(const ImageChange& change, std::span<std::byte> memory) {
  const std::uint64_t at = object_record_at(change.index);
  auto record = load<nkv_object_record>(memory, at);
  const std::span<std::byte> grain = grain_at(memory, record.extent_first[0]);
  if (grain.empty()) return;
  change_bytes(change, grain);
  const std::uint64_t start = std::uint64_t{record.extent_first[0]} * NKV_OBJECT_GRAIN_BYTES;
  if (!change.sealed || record.extents != 1 || record.parts != 0 ||
      record.bytes > memory.size() - start) {
    return;
  }
  record.payload_crc = crc32c(memory.subspan(start, record.bytes));
  store_at(memory, at, record);
  seal_record(memory.subspan(at, sizeof(record)));
}

void link_object(const ImageChange& change, std::span<std::byte> memory) {
  const auto parent = load<nkv_object_record>(memory, object_record_at(change.value));
  const std::uint64_t at = object_record_at(change.index);
  auto record = load<nkv_object_record>(memory, at);
  const std::size_t key_bytes = parent.key_bytes % (sizeof(parent.key) + 1);
  const auto key = std::as_bytes(std::span(parent.key));
  record.flags |= NKV_OBJECT_FLAG_CHAINED;
  record.parent = fingerprint(layout().seed, parent.namespace_number,
                              key.first(key_bytes == 0 ? key.size() : key_bytes));
  store_at(memory, at, record);
  seal_record(memory.subspan(at, sizeof(record)));
}

}  // namespace

ImageMemory::ImageMemory(std::span<const std::byte> image)
    : first_(new(std::align_val_t{4096}) std::byte[image.size()],
             [](std::byte* first) { ::operator delete[](first, std::align_val_t{4096}); }),
      size_(image.size()) {
  std::ranges::copy(image, first_.get());
}

Pool::Options image_options() {
  Pool::Options options;
  options.shape.layers = 1;
  options.shape.kv_heads = kHeads;
  options.shape.head_dim = options.shape.value_dim = kDim;
  options.max_sequences = 2 * kImageSequences;
  options.max_objects = 48;
  options.max_namespaces = 4;
  options.staging_bytes = 64 << 10;
  return options;
}

std::unique_ptr<ObjectStore> open_image_store(std::span<std::byte> memory,
                                              nkv_pool_header* header) {
  std::shared_ptr<PoolMemory> pool;
  std::string reason;
  if (PoolMemory::open(source_of(memory), &pool, &reason) != Status::kOk) return nullptr;
  *header = pool->header();
  return open_objects(std::move(pool));
}

std::unique_ptr<Pool> open_image_pool(std::span<std::byte> memory) {
  std::shared_ptr<PoolMemory> pool;
  std::string reason;
  if (PoolMemory::open(source_of(memory), image_plan(), &pool, &reason) != Status::kOk) {
    return nullptr;
  }
  return open_sequences(std::move(pool));
}

std::vector<std::uint32_t> open_image_spaces(ObjectStore* store) {
  std::vector<std::uint32_t> numbers(kImageSpaces);
  for (std::uint32_t space = 0; space < kImageSpaces; ++space) {
    Namespace name;
    name.tenant = static_cast<std::uint16_t>(space);
    name.model = "model";
    if (store->open_namespace(name, &numbers[space]) != Status::kOk) numbers[space] = space;
  }
  return numbers;
}

std::vector<std::uint16_t> image_rows(std::uint32_t tokens, std::uint64_t seed) {
  std::vector<std::uint16_t> rows(tokens * kHeads * kDim);
  const Bytes bytes = contents(seed, rows.size() * sizeof(rows[0]));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  for (std::uint16_t& element : rows) {
    element = static_cast<std::uint16_t>((element & 0x807F) | 0x3F00);
  }
  return rows;
}

const std::vector<std::byte>& pool_image() {
  static const std::vector<std::byte> image = [] {
    const ImageMemory memory((std::vector<std::byte>(kImageBytes)));
    std::shared_ptr<PoolMemory> pool;
    check(PoolMemory::create(source_of(memory.bytes()), image_plan(), &pool));
    fill_sequences(open_sequences(pool).get());
    fill_objects(open_objects(pool).get(), pool->slabs().free_slabs() * pool->slabs().slab_bytes());
    return std::vector<std::byte>(memory.bytes().begin(), memory.bytes().end());
  }();
  return image;
}

ImageChange decode_change(std::span<const std::uint8_t, kChangeBytes> bytes) {
  ImageChange change;
  change.kind = static_cast<ImageChange::Kind>(bytes[0] % ImageChange::kKinds);
  change.sealed = bytes[1] % 4 != 0;
  change.adds = bytes[1] / 4 % 2 != 0;
  change.width = static_cast<std::uint8_t>(1U << (bytes[2] % 4));
  change.index = bytes[3];
  std::memcpy(&change.offset, &bytes[4], sizeof(change.offset));
  std::memcpy(&change.value, &bytes[6], sizeof(change.value));
  return change;
}

void encode_change(const ImageChange& change, std::vector<std::uint8_t>* bytes) {
  const auto log_width = static_cast<std::uint8_t>(change.width == 8   ? 3
                                                   : change.width == 4 ? 2
                                                                       : change.width - 1);
  bytes->push_back(static_cast<std::uint8_t>(change.kind));
  bytes->push_back(static_cast<std::uint8_t>((change.sealed ? 1 : 0) + (change.adds ? 4 : 0)));
  bytes->push_back(log_width);
  bytes->push_back(change.index);
  const auto* const offset = reinterpret_cast<const std::uint8_t*>(&change.offset);
  bytes->insert(bytes->end(), offset, offset + sizeof(change.offset));
  const auto* const value = reinterpret_cast<const std::uint8_t*>(&change.value);
  bytes->insert(bytes->end(), value, value + sizeof(change.value));
}

void apply_change(const ImageChange& change, std::span<std::byte> memory) {
  using Kind = ImageChange::Kind;
  const nkv_pool_header& header = layout();
  const auto copy_record = [&](std::uint64_t table_at, std::size_t count, std::size_t bytes) {
    const std::span<std::byte> from =
        memory.subspan(table_at + change.value % count * bytes, bytes);
    std::ranges::copy(from, memory.subspan(table_at + change.index % count * bytes).begin());
  };
  switch (change.kind) {
    case Kind::kPoolHeader:
      return change_pool_header(change, memory);
    case Kind::kSlabRecord:
      return change_table<nkv_slab_record>(change, memory, header.slabs_at, header.slabs, 1,
                                           seal_slab);
    case Kind::kNamespaceRecord:
      return change_table<nkv_namespace_record>(change, memory, header.namespaces_at,
                                                header.max_namespaces, 2, seal_record);
    case Kind::kObjectRecord:
      return change_table<nkv_object_record>(change, memory, header.objects_at, header.max_objects,
                                             1, seal_record);
    case Kind::kExtentList:
      return change_extent_list(change, memory);
    case Kind::kSequenceRecord:
      return change_table<nkv_sequence_record>(change, memory, header.sequences_at,
                                               header.max_sequences, 2, seal_sequence);
    case Kind::kPageHeader:
    case Kind::kPagePayload:
      return change_page(change, memory);
    case Kind::kObjectPayload:
      return change_object_payload(change, memory);
    case Kind::kAnyByte:
      return change_bytes(change,
                          memory.subspan(std::size_t{change.index} * 10240 % memory.size()));
    case Kind::kLinkObject:
      return link_object(change, memory);
    case Kind::kCopyObjectRecord:
      return copy_record(header.objects_at, header.max_objects, sizeof(nkv_object_record));
    case Kind::kCopySequenceRecord:
      return copy_record(header.sequences_at, header.max_sequences, sizeof(nkv_sequence_record));
  }
}

}  // namespace nearkv::test
