// libFuzzer target: the first bytes choose codec and shape, the rest is decoded; then, as rows,
// encoded and decoded again.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "nearkv/codec.hpp"
#include "target.hpp"

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

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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

namespace nearkv::test {

const char* const mutation_fault = "mutated codec stream";
const int mutation_runs = 60000;

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  for (std::uint8_t codec = 0; codec < 7; ++codec) {
    for (std::uint8_t tensor = 0; tensor < 2; ++tensor) {
      // Some bf16 rows with a block's head before them.
      std::vector<std::uint8_t> input{codec, tensor, 0, 0};
      for (std::uint32_t i = 0; i < 2048; ++i) {
        input.push_back(static_cast<std::uint8_t>(i % 2 == 0 ? i * 37 : 0x3F));
      }
      inputs.push_back(input);
    }
  }
  return inputs;
}

}  // namespace nearkv::test
