#include "nearkv/codec.hpp"

#include <nanobind/nanobind.h>

#include <vector>

#include "arrays.hpp"
#include "error.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

BlockShape block_shape(int tensor, int dtype, std::uint16_t dim) {
  return {static_cast<Tensor>(tensor), static_cast<RowDtype>(dtype), dim};
}

nb::bytes encode_block(int codec, int tensor, const Array& rows, int dtype) {
  check_shape(rows, {kBlockTokens, -1}, "rows");
  const std::uint8_t own = dtype_of(rows, static_cast<std::uint8_t>(dtype), "rows");
  const BlockShape shape = block_shape(tensor, own, static_cast<std::uint16_t>(rows.shape(1)));
  const std::span<const std::byte> source = bytes_of(rows, "rows");
  std::vector<std::byte> out(encoded_bound(static_cast<Codec>(codec), shape));
  std::size_t size = 0;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    CodecWorkspace workspace;
    status = encode(static_cast<Codec>(codec), shape, source, out, &size, workspace);
  }
  check(status);
  return nb::bytes(out.data(), size);
}

Rows decode_block(int codec, int tensor, const nb::bytes& encoded, int dtype, std::uint16_t dim) {
  const BlockShape shape = block_shape(tensor, dtype, dim);
  if (!codec_supports(static_cast<Codec>(codec), shape)) check(Status::kBadArgument);
  std::span<std::byte> rows;
  Rows array = zero_rows({kBlockTokens, dim}, static_cast<std::uint8_t>(dtype), &rows);
  const std::span source(static_cast<const std::byte*>(encoded.data()), encoded.size());
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    CodecWorkspace workspace;
    status = decode(static_cast<Codec>(codec), shape, source, rows, workspace);
  }
  check(status);
  return array;
}

}  // namespace

void bind_codecs(nb::module_& module) {
  module.def(
      "codec_supports",
      [](int codec, int tensor, int dtype, std::uint16_t dim) {
        return codec_supports(static_cast<Codec>(codec), block_shape(tensor, dtype, dim));
      },
      "codec"_a, "tensor"_a, "dtype"_a, "dim"_a,
      "Whether a codec takes blocks of 64 rows of `dim` channels of this dtype.");
  module.def("encode_block", &encode_block, "codec"_a, "tensor"_a, "rows"_a,
             "dtype"_a = int{NKV_DTYPE_BF16},
             "Compresses a block: rows [64, dim], contiguous. `codec` is a `Codec`, `tensor` a\n"
             "`Tensor`; `dtype` says what rows of uint16 or uint8 are. Raises Error for what the\n"
             "codec does not take.");
  module.def("decode_block", &decode_block, "codec"_a, "tensor"_a, "encoded"_a, "dtype"_a, "dim"_a,
             "Rows [64, dim] of what `encode_block` gave, as uint16 for elements of two bytes and\n"
             "uint8 for one. Raises Error for bytes that are not such a block.");
}

}  // namespace nearkv::python
