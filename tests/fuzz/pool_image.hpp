// A small pool of objects and sequences, and changes to it that keep its checksums right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nearkv/object_store.hpp"
#include "nearkv/pool.hpp"
#include "persist/persistence.hpp"

namespace nearkv::test {

inline constexpr std::size_t kImageKeys = 40;        ///< In each namespace, stored or not.
inline constexpr std::uint32_t kImageSpaces = 2;     ///< Namespaces, of two tenants.
inline constexpr std::uint64_t kImageSequences = 6;  ///< Numbered from 0, stored or not.

/// Memory on the heap, aligned as a mapping is: what lies outside of it is nobody's.
class ImageMemory {
 public:
  explicit ImageMemory(std::span<const std::byte> image);

  [[nodiscard]] std::span<std::byte> bytes() const { return {first_.get(), size_}; }

 private:
  std::shared_ptr<std::byte> first_;
  std::size_t size_;
};

/// What the image's pool is made with.
Pool::Options image_options();

/// Opens what is there as an object store, or as a pool of sequences; nullptr if it is refused.
/// `header` gets the one that the store goes by.
std::unique_ptr<ObjectStore> open_image_store(std::span<std::byte> memory, nkv_pool_header* header);
std::unique_ptr<Pool> open_image_pool(std::span<std::byte> memory);

/// Opens the store's namespaces. Numbers are those of the image as long as nobody changed them.
std::vector<std::uint32_t> open_image_spaces(ObjectStore* store);

/// bf16 rows of `tokens` tokens and all heads for Pool::append.
std::vector<std::uint16_t> image_rows(std::uint32_t tokens, std::uint64_t seed);

/// A valid pool with objects in parts, in chains and in many extents, and sequences with forks and
/// compressed pages.
const std::vector<std::byte>& pool_image();

/// One change: what to change, and how.
struct ImageChange {
  enum class Kind : std::uint8_t {
    kPoolHeader,
    kSlabRecord,
    kNamespaceRecord,
    kObjectRecord,
    kExtentList,
    kSequenceRecord,
    kPageHeader,
    kPagePayload,
    kObjectPayload,
    kAnyByte,
    kCopyObjectRecord,    ///< From another index, `value`.
    kCopySequenceRecord,  ///< From another index, `value`.
    kLinkObject,          ///< Makes it a block after the object of another index, `value`.
  };
  static constexpr std::uint8_t kKinds = 13;

  Kind kind = Kind::kAnyByte;
  bool sealed = true;      ///< Checksums are made right again.
  std::uint8_t index = 0;  ///< Which record, page or object.
  std::uint8_t width = 1;  ///< Bytes to change: 1, 2, 4 or 8.
  std::uint16_t offset = 0;
  std::uint32_t value = 0;  ///< Added, if `adds`; stored otherwise, repeated beyond 4 bytes.
  bool adds = false;
};

inline constexpr std::size_t kChangeBytes = 10;

/// A change from bytes, whatever they are, and the bytes of a change.
ImageChange decode_change(std::span<const std::uint8_t, kChangeBytes> bytes);
void encode_change(const ImageChange& change, std::vector<std::uint8_t>* bytes);

/// Changes memory that still has the image's layout.
void apply_change(const ImageChange& change, std::span<std::byte> memory);

}  // namespace nearkv::test
