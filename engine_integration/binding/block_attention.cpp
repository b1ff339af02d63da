#include "nearkv/block_attention.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "arrays.hpp"
#include "error.hpp"
#include "module.hpp"
#include "nearkv/block_codes.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using Ints = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::device::cpu>;
using Writable = nb::ndarray<nb::device::cpu>;
using Slots = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Gains = nb::ndarray<const std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Lse = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// A layer's blocks, and the arrays that keep them alive.
class PythonCache {
 public:
  PythonCache(Array keys, Array values, BlockLayout layout)
      : keys_(std::move(keys)), values_(std::move(values)) {
    check_shape(keys_, {-1, -1, -1, -1}, "keys");
    check_shape(
        values_,
        {static_cast<std::int64_t>(keys_.shape(0)), static_cast<std::int64_t>(keys_.shape(1)),
         static_cast<std::int64_t>(keys_.shape(2)), static_cast<std::int64_t>(keys_.shape(3))},
        "values");
    if (keys_.size() == 0) throw nb::value_error("keys must not be empty");
    cache_.dtype = dtype_of(keys_, NKV_DTYPE_BF16, "keys");
    const std::size_t bytes = element_bytes(cache_.dtype);
    const auto dim = static_cast<std::int64_t>(keys_.shape(3));
    for (const Array* array : {&keys_, &values_}) {
      const bool is_packed = array->stride(3) == 1 && array->stride(2) == dim;
      const bool is_alike = array->stride(0) == keys_.stride(0) &&
                            array->stride(1) == keys_.stride(1) &&
                            dtype_of(*array, NKV_DTYPE_BF16, "values") == cache_.dtype;
      if (!is_packed || !is_alike || array->stride(0) < 0 || array->stride(1) < 0) {
        throw nb::value_error(
            "keys and values must have one dtype and the same strides, and a head's part of a "
            "block must lie in one piece");
      }
    }
    cache_.keys = static_cast<const std::byte*>(keys_.data());
    cache_.values = static_cast<const std::byte*>(values_.data());
    cache_.blocks = keys_.shape(0);
    cache_.block_stride_bytes = static_cast<std::size_t>(keys_.stride(0)) * bytes;
    cache_.head_stride_bytes = static_cast<std::size_t>(keys_.stride(1)) * bytes;
    cache_.kv_heads = static_cast<std::uint32_t>(keys_.shape(1));
    cache_.block_tokens = static_cast<std::uint32_t>(keys_.shape(2));
    cache_.head_dim = static_cast<std::uint32_t>(dim);
    cache_.layout = layout;
  }

  [[nodiscard]] const BlockCache& cache() const { return cache_; }

 private:
  Array keys_;
  Array values_;
  BlockCache cache_;
};

/// A layer's blocks that NearKV writes itself, and codes beside them.
class PythonCodes {
 public:
  PythonCodes(const Writable& keys, const Writable& values, const std::optional<Gains>& gains)
      : cache_(Array(keys), Array(values), BlockLayout::kRows),
        keys_(static_cast<std::byte*>(keys.data())),
        values_(static_cast<std::byte*>(values.data())) {
    std::span<const std::int8_t> all;
    if (gains) all = {gains->data(), gains->size()};
    std::string reason;
    const Status status = BlockCodes::create(cache_.cache(), all, &codes_, &reason);
    check(status, reason);
  }

  void write(const Array& keys, const Array& values, const Slots& slots) {
    const BlockCache& of = cache_.cache();
    const std::size_t bytes = element_bytes(of.dtype);
    for (const Array* rows : {&keys, &values}) {
      check_shape(*rows, {-1, of.kv_heads, of.head_dim}, "keys and values");
      if (rows->shape(0) < slots.shape(0) || dtype_of(*rows, of.dtype, "rows") != of.dtype ||
          rows->stride(2) != 1 || rows->stride(1) != of.head_dim || rows->stride(0) < 0) {
        throw nb::value_error(
            "keys and values must have the cache's dtype and a row for each slot, and the heads "
            "of a token must lie in one piece");
      }
    }
    const NewRows rows{static_cast<const std::byte*>(keys.data()),
                       static_cast<std::size_t>(keys.stride(0)) * bytes,
                       static_cast<const std::byte*>(values.data()),
                       static_cast<std::size_t>(values.stride(0)) * bytes};
    const std::span<const std::int64_t> where(slots.data(), slots.shape(0));
    Status status = Status::kOk;
    {
      const nb::gil_scoped_release release;
      status = store_rows(of, keys_, values_, rows, where);
      codes_->forget(where);
    }
    check(status, "a slot lies beyond the cache");
  }

  void set_gains(const Gains& gains) {
    check(codes_->set_gains({gains.data(), gains.size()}), "there must be a gain for each channel");
  }

  [[nodiscard]] const PythonCache& cache() const { return cache_; }
  [[nodiscard]] BlockCodes* codes() const { return codes_.get(); }

 private:
  PythonCache cache_;
  std::byte* keys_;
  std::byte* values_;
  std::unique_ptr<BlockCodes> codes_;
};

void begin_step(BlockBatch& batch, const Ints& starts, const Ints& lengths, const Table& table,
                std::uint32_t block_tokens, std::uint32_t max_queries) {
  if (table.shape(0) < lengths.shape(0) || (table.shape(1) > 1 && table.stride(1) != 1) ||
      table.stride(0) < 0) {
    throw nb::value_error("table must have a contiguous row for each request");
  }
  std::string reason;
  const Status status =
      batch.begin_step({starts.data(), starts.shape(0)}, {lengths.data(), lengths.shape(0)},
                       {table.data(), table.shape(1), static_cast<std::size_t>(table.stride(0))},
                       block_tokens, max_queries, &reason);
  check(status, reason);
}

void attend_layer(BlockBatch& batch, const PythonCache& cache, const Array& queries,
                  const Writable& outputs, float scale, float soft_cap, std::uint32_t window,
                  const std::optional<Lse>& lse, const PythonCodes* codes, std::uint8_t mode,
                  float error, std::uint32_t top_k, bool if_faster) {
  const BlockCache& of = cache.cache();
  const auto tokens = static_cast<std::int64_t>(queries.shape(0));
  check_shape(queries, {-1, -1, of.head_dim}, "queries");
  const auto heads = static_cast<std::int64_t>(queries.shape(1));
  check_shape(Array(outputs), {tokens, heads, of.head_dim}, "outputs");
  if (heads % of.kv_heads != 0 || dtype_of(queries, of.dtype, "queries") != of.dtype ||
      dtype_of(Array(outputs), of.dtype, "outputs") != of.dtype) {
    throw nb::value_error(
        "queries and outputs must have the cache's dtype, and some heads for each KV head");
  }
  if (lse && (lse->shape(0) != queries.shape(0) || lse->shape(1) != queries.shape(1))) {
    throw nb::value_error("lse must have one element per token and head");
  }
  for (const auto& [inner, middle, outer] :
       {std::tuple(queries.stride(2), queries.stride(1), queries.stride(0)),
        std::tuple(outputs.stride(2), outputs.stride(1), outputs.stride(0))}) {
    if (inner != 1 || middle != of.head_dim || outer < 0) {
      throw nb::value_error("the heads of a token must lie in one piece");
    }
  }
  const std::size_t bytes = element_bytes(of.dtype);
  const BlockQueries all{static_cast<const std::byte*>(queries.data()),
                         static_cast<std::size_t>(queries.stride(0)) * bytes,
                         static_cast<std::byte*>(outputs.data()),
                         static_cast<std::size_t>(outputs.stride(0)) * bytes,
                         lse ? lse->data() : nullptr,
                         static_cast<std::size_t>(tokens),
                         static_cast<std::uint32_t>(heads / of.kv_heads)};
  std::string reason;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    const BlockApproximation approximation{codes != nullptr ? codes->codes() : nullptr, mode, error,
                                           top_k, if_faster};
    status =
        batch.attend(of, {scale, soft_cap, window, approximation}, all, openmp_team(), &reason);
  }
  check(status, reason);
}

}  // namespace

void bind_block_attention(nb::module_& module) {
  nb::enum_<BlockLayout>(module, "BlockLayout",
                         "The order of elements in a head's part of a block.")
      .value("ROWS", BlockLayout::kRows, "K and V [block_tokens, head_dim].")
      .value("CHANNEL_MAJOR", BlockLayout::kChannelMajor,
             "K [head_dim, block_tokens], V [block_tokens, head_dim].")
      .value("TILES", BlockLayout::kTiles, "Pairs of channels and of tokens, as AMX multiplies.");
  nb::class_<PythonCache>(module, "BlockCache", "A layer's K and V in an engine's own blocks.")
      .def(nb::init<Array, Array, BlockLayout>(), "keys"_a, "values"_a, "layout"_a,
           "keys, values [blocks, kv_heads, block_tokens, head_dim] in bf16, fp16 or fp32, as\n"
           "views of the engine's memory, which must stay where it is; inside a block they may\n"
           "be packed as `layout` says.");
  nb::class_<BlockCodes::Counts>(module, "BlockCounts", "What codes have been used for.")
      .def_ro("pages", &BlockCodes::Counts::pages, "Made: 64 tokens of a KV head each.")
      .def_ro("approximate", &BlockCodes::Counts::approximate,
              "Queries answered by codes, each once per KV head.")
      .def_ro("exact", &BlockCodes::Counts::exact, "Those for which codes were no use.")
      .def_ro("exact_calls", &BlockCodes::Counts::exact_calls,
              "Of attend(), which took all rows since that was faster.")
      .def_ro("read_bytes", &BlockCodes::Counts::read_bytes,
              "For all queries but those of exact calls.")
      .def_ro("cached_bytes", &BlockCodes::Counts::cached_bytes, "Of so many of K and V.");
  nb::class_<PythonCodes>(
      module, "BlockCodes",
      "Codes beside a layer's blocks, which NearKV writes itself. No checksum guards either.")
      .def(
          nb::init<const Writable&, const Writable&, const std::optional<Gains>&>(), "keys"_a,
          "values"_a, "gains"_a = nb::none(),
          "keys, values [blocks, kv_heads, block_tokens, head_dim] in bf16, views of the engine's\n"
          "memory, of blocks of a multiple of 64 tokens; gains int8 [kv_heads, head_dim], or none.")
      .def_prop_ro("cache", &PythonCodes::cache, nb::rv_policy::reference_internal,
                   "The blocks, rows in the order of tokens.")
      .def("write", &PythonCodes::write, "keys"_a, "values"_a, "slots"_a,
           "Writes rows [tokens, kv_heads, head_dim] to slots, int64: block * block_tokens +\n"
           "place, negative ones nowhere. What codes said of these slots is forgotten.")
      .def("set_gains", &PythonCodes::set_gains, "gains"_a,
           "Gains of all codes from now on; those that there are are made anew.")
      .def_prop_ro(
          "most_bytes", [](const PythonCodes& codes) { return codes.codes()->most_bytes(); },
          "What codes take when all blocks have them, beside the cache. They take it as they are "
          "made.")
      .def_prop_ro(
          "counts", [](const PythonCodes& codes) { return codes.codes()->counts(); },
          "What attend() has done by them.");
  nb::class_<BlockBatch>(
      module, "BlockBatch",
      "The requests of a step, attended to layer by layer where their blocks lie. One thread at\n"
      "a time.")
      .def(nb::init<>())
      .def("begin_step", &begin_step, "starts"_a, "lengths"_a, "table"_a, nb::kw_only(),
           "block_tokens"_a, "max_queries"_a = 8,
           "Takes the requests of a step, int32: request r has the queries [starts[r],\n"
           "starts[r + 1]), the last of its lengths[r] tokens, and the blocks table[r]. Requests\n"
           "with more than `max_queries` queries are left out of attend().")
      .def_prop_ro("queries", &BlockBatch::queries, "Queries that attend() answers.")
      .def(
          "attend", &attend_layer, "cache"_a, "queries"_a, "outputs"_a, nb::kw_only(), "scale"_a,
          "soft_cap"_a = 0.0F, "window"_a = 0, "lse"_a = nb::none(), "codes"_a = nb::none(),
          "mode"_a = std::uint8_t{NKV_ATTEND_MODE_BOUNDED}, "error"_a = 0.05F, "top_k"_a = 64,
          "if_faster"_a = false,
          "Writes softmax(scale * q K) V of the batch's queries into outputs, both [tokens,\n"
          "heads, head_dim] in the cache's dtype, and the natural LSE into lse [tokens, heads].\n"
          "A query sees the newest `window` tokens, or all with 0. Works on the threads of\n"
          "OpenMP where a runtime of it is loaded, as torch's is. With `codes`, which have the\n"
          "cache, queries that see 2,048 tokens or more read a part of them: as much as keeps the\n"
          "estimated relative error at `error` (AttendMode.BOUNDED), or exactly no more than the\n"
          "best `top_k` of each query head (TAIL); with `if_faster` only where that is measured "
          "to\n"
          "be faster than reading all. Raises Error for a block table that does not fit the "
          "cache,\n"
          "and writes nothing then.");
}

}  // namespace nearkv::python
