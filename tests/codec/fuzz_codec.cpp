// libFuzzer target: the first bytes choose codec and shape, the rest is decoded; then, as rows,
// encoded and decoded again.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "nearkv/codec.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kHeadBytes = 4;

bool is_lossless(Codec codec) { return codec <= Codec::kPlanesZstd; }

void check(bool holds) {
  if (!holds) std::abort();
}

void decode_any(Codec codec, const BlockShape& shape, std::span<const std::byte> bytes,
                CodecWorkspace& workspace) {
  std::vector<std::byte> rows(block_bytes(shape));
  const Status status = decode(codec, shape, bytes, rows, workspace);
  check(status == Status::kOk || status == Status::kCodecError);
}

void round_trip(Codec codec, const BlockShape& shape, std::span<const std::byte> bytes,
                CodecWorkspace& workspace) {
  std::vector<std::byte> rows(block_bytes(shape));
  std::ranges::copy(bytes.first(std::min(bytes.size(), rows.size())), rows.begin());
  std::vector<std::byte> encoded(encoded_bound(codec, shape));
  std::size_t encoded_bytes = 0;
  const Status status = encode(codec, shape, rows, encoded, &encoded_bytes, workspace);
  if (status == Status::kBadArgument && !is_lossless(codec)) return;
  check(status == Status::kOk && encoded_bytes <= encoded.size());
  std::vector<std::byte> decoded(rows.size());
  check(decode(codec, shape, std::span(encoded).first(encoded_bytes), decoded, workspace) ==
        Status::kOk);
  check(!is_lossless(codec) || decoded == rows);
}

}  // namespace
}  // namespace nearkv

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nearkv;
  if (size < kHeadBytes) return 0;
  constexpr std::array<std::uint16_t, 4> kDims{16, 48, 128, 576};
  const auto codec = static_cast<Codec>(data[0] % 7);
  const BlockShape shape{static_cast<Tensor>(data[1] % 2), static_cast<RowDtype>(data[2] % 6),
                         kDims[data[3] % kDims.size()]};
  if (!codec_supports(codec, shape)) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(kHeadBytes);
  CodecWorkspace workspace;
  decode_any(codec, shape, bytes, workspace);
  round_trip(codec, shape, bytes, workspace);
  return 0;
}
