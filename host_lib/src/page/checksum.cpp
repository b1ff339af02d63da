#include "page/checksum.hpp"

#include <isa-l/crc.h>

namespace nearkv {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // ISA-L takes a mutable pointer and an int, and leaves both inversions to the caller. It only
  // reads.
  auto* const data =
      const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~::crc32_iscsi(data, static_cast<int>(bytes.size()), ~before);
}

}  // namespace nearkv
