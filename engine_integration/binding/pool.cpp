#include "nearkv/pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "error.hpp"
#include "module.hpp"
#include "nearkv/in_place.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using Sequences = std::variant<std::uint64_t, std::vector<std::uint64_t>>;
using Floats = nb::ndarray<nb::numpy, float>;
using Ids = nb::ndarray<nb::numpy, std::uint32_t>;
using Bounds = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Gains = nb::ndarray<nb::numpy, std::int8_t>;
using GivenGains = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RowWeights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Runs a call of the pool without the GIL and raises its error.
template <typename Call>
void run(Pool& pool, Call&& call) {
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = call();
  }
  if (status != Status::kOk) check(status, pool.last_error());
}

using StartPool = Status (*)(std::shared_ptr<Device>, const Pool::Options&, std::unique_ptr<Pool>*,
                             std::string*);

template <StartPool kStart>
std::unique_ptr<Pool> start_pool(std::shared_ptr<Device> device, std::uint16_t layers,
                                 std::uint16_t kv_heads, std::uint16_t head_dim,
                                 std::optional<std::uint16_t> value_dim, std::uint8_t dtype,
                                 std::optional<std::uint8_t> k_form,
                                 std::optional<std::uint8_t> v_form, std::uint32_t max_sequences,
                                 std::uint64_t staging_bytes, std::uint64_t memory_bytes,
                                 double timeout_s, bool codes) {
  const std::uint8_t form = dtype == NKV_DTYPE_BF16 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
  Pool::Options options;
  options.shape = {layers,
                   kv_heads,
                   head_dim,
                   value_dim.value_or(head_dim),
                   dtype,
                   k_form.value_or(form),
                   v_form.value_or(form)};
  options.max_sequences = max_sequences;
  options.staging_bytes = staging_bytes;
  options.memory_bytes = memory_bytes;
  options.codes = codes;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1e3));
  std::unique_ptr<Pool> pool;
  std::string reason;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = kStart(std::move(device), options, &pool, &reason);
  }
  check(status, reason);
  return pool;
}

void append_rows(Pool& pool, std::uint64_t sequence, std::uint16_t layer, const Array& keys,
                 const std::optional<Array>& values) {
  const ModelShape& shape = pool.shape();
  check_shape(keys, {shape.kv_heads, -1, shape.head_dim}, "keys");
  const HostRows key_rows = host_rows(keys, shape.dtype, "keys");
  const auto tokens = static_cast<std::uint32_t>(keys.shape(1));
  HostRows value_rows;
  if (values) {
    check_shape(*values, {shape.kv_heads, tokens, shape.value_dim}, "values");
    value_rows = host_rows(*values, shape.dtype, "values");
  }
  run(pool, [&] { return pool.append(sequence, layer, key_rows, value_rows, tokens); });
}

void set_gains(Pool& pool, std::uint16_t layer, std::uint16_t kv_head, const GivenGains& gains) {
  run(pool, [&] { return pool.set_gains(layer, kv_head, {gains.data(), gains.size()}); });
}

std::optional<Gains> gains_of(Pool& pool, std::uint16_t layer, std::uint16_t kv_head) {
  std::vector<std::int8_t> found;
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = pool.gains(layer, kv_head, &found);
  }
  if (status == Status::kNotFound) return std::nullopt;
  check(status, pool.last_error());
  Numpy<std::int8_t> gains({found.size()});
  std::ranges::copy(found, gains.span().begin());
  return gains.release();
}

std::uint32_t tokens_of(Pool& pool, std::uint64_t sequence, std::uint16_t layer) {
  std::uint32_t tokens = 0;
  run(pool, [&] { return pool.tokens(sequence, layer, &tokens); });
  return tokens;
}

std::tuple<Floats, Floats> attend(Pool& pool, const Sequences& which, std::uint16_t layer,
                                  const Array& queries, float scale, std::uint8_t mode,
                                  std::uint32_t tokens, std::uint32_t window, std::uint8_t sinks,
                                  float soft_cap, std::uint16_t top_k, float error,
                                  std::uint8_t byte_cap, std::uint8_t z16,
                                  std::uint16_t first_kv_head, ColdPages cold,
                                  const std::optional<Bounds>& bound) {
  const ModelShape& shape = pool.shape();
  const bool many = std::holds_alternative<std::vector<std::uint64_t>>(which);
  const std::vector<std::uint64_t> sequences =
      many ? std::get<1>(which) : std::vector<std::uint64_t>{std::get<0>(which)};
  const auto batch = static_cast<std::int64_t>(sequences.size());
  if (many) {
    check_shape(queries, {batch, -1, -1, shape.head_dim}, "queries");
  } else {
    check_shape(queries, {-1, -1, shape.head_dim}, "queries");
  }
  const std::size_t heads = queries.shape(many ? 1 : 0);
  const std::size_t rows = queries.shape(many ? 2 : 1);
  if (first_kv_head + heads > shape.kv_heads) {
    throw nb::value_error("queries: more KV heads than the pool has");
  }
  const std::uint8_t dtype = dtype_of(queries, shape.dtype, "queries");
  const std::span<const std::byte> query = bytes_of(queries, "queries");
  const std::size_t all_rows = sequences.size() * heads * rows;
  if (bound && bound->size() != all_rows) {
    throw nb::value_error("bound must have one element per query row");
  }
  const std::span<float> bounds = bound ? std::span(bound->data(), all_rows) : std::span<float>{};
  Numpy<float> output = many ? Numpy<float>{sequences.size(), heads, rows, shape.value_dim}
                             : Numpy<float>{heads, rows, shape.value_dim};
  Numpy<float> lse = many ? Numpy<float>{sequences.size(), heads, rows} : Numpy<float>{heads, rows};

  AttendOptions options;
  options.scale = scale;
  options.soft_cap = soft_cap;
  options.tokens = tokens;
  options.window = window;
  options.sinks = sinks;
  options.mode = mode;
  options.top_k = top_k;
  options.error = error;
  options.byte_cap = byte_cap;
  options.z16 = z16;
  options.cold = cold;

  std::vector<AttendRequest> requests;
  const std::size_t query_bytes = shape.head_dim * element_bytes(dtype);
  std::size_t row = 0;
  for (const std::uint64_t sequence : sequences) {
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t begin = 0; begin < rows; begin += NKV_MAX_GROUP) {
        const std::size_t count = std::min<std::size_t>(NKV_MAX_GROUP, rows - begin);
        requests.push_back({
            .sequence = sequence,
            .layer = layer,
            .kv_head = static_cast<std::uint16_t>(first_kv_head + head),
            .query_dtype = dtype,
            .rows = static_cast<std::uint16_t>(count),
            .query = query.subspan(row * query_bytes, count * query_bytes),
            .output = output.span().subspan(row * shape.value_dim, count * shape.value_dim),
            .lse = lse.span().subspan(row, count),
            .bound = bounds.empty() ? bounds : bounds.subspan(row, count),
        });
        row += count;
      }
    }
  }
  run(pool, [&] { return pool.attend(requests, options); });
  return {output.release(), lse.release()};
}

std::tuple<Ids, Floats, Ids> top_k(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                                   std::uint16_t kv_head, const Array& queries, std::uint16_t k,
                                   float scale, std::uint8_t mode, std::uint8_t z16,
                                   std::uint32_t tokens, std::uint32_t window, std::uint8_t sinks,
                                   const std::optional<RowWeights>& weights, ColdPages cold) {
  const ModelShape& shape = pool.shape();
  check_shape(queries, {-1, shape.head_dim}, "queries");
  const std::size_t rows = queries.shape(0);
  if (rows > NKV_MAX_GROUP) throw nb::value_error("queries: too many rows for one command");
  if (weights.has_value() != (mode == NKV_SELECT_INDEXER)) {
    throw nb::value_error("weights belong to Select.INDEXER, which needs them");
  }
  if (weights && weights->size() != rows) {
    throw nb::value_error("weights must have one element per query row");
  }
  const std::size_t lists = weights ? 1 : rows;
  Numpy<std::uint32_t> ids({lists, k});
  Numpy<float> scores({lists, k});
  Numpy<std::uint32_t> counts({lists});
  const Pool::TopKRequest request{
      .sequence = sequence,
      .layer = layer,
      .kv_head = kv_head,
      .query_dtype = dtype_of(queries, shape.dtype, "queries"),
      .rows = static_cast<std::uint16_t>(rows),
      .top_k = k,
      .mode = mode,
      .z16 = z16,
      .scale = scale,
      .tokens = tokens,
      .window = window,
      .sinks = sinks,
      .cold = cold,
      .query = bytes_of(queries, "queries"),
      .weights = weights ? std::span(weights->data(), rows) : std::span<const float>{},
      .ids = ids.span(),
      .scores = scores.span(),
      .counts = counts.span(),
  };
  run(pool, [&] { return pool.top_k(request); });
  return {ids.release(), scores.release(), counts.release()};
}

/// K and V rows [count, dim] that `fill` puts into the two buffers; no V rows if not wanted.
template <typename Fill>
std::tuple<Rows, Rows> rows_of(Pool& pool, std::size_t count, bool with_values, Fill&& fill) {
  const ModelShape& shape = pool.shape();
  std::span<std::byte> keys;
  std::span<std::byte> values;
  Rows key_rows = zero_rows({count, shape.head_dim}, shape.dtype, &keys);
  Rows value_rows = zero_rows({with_values ? count : 0, shape.value_dim}, shape.dtype, &values);
  run(pool, [&] { return fill(keys, values); });
  return {std::move(key_rows), std::move(value_rows)};
}

std::tuple<Rows, Rows> gather(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                              std::uint16_t kv_head, const std::vector<std::uint32_t>& ids,
                              bool with_values) {
  return rows_of(pool, ids.size(), with_values,
                 [&](std::span<std::byte> keys, std::span<std::byte> values) {
                   return pool.gather(sequence, layer, kv_head, ids, keys, values);
                 });
}

std::tuple<Rows, Rows> read(Pool& pool, std::uint64_t sequence, std::uint16_t layer,
                            std::uint16_t kv_head, std::uint32_t first, std::uint32_t count) {
  return rows_of(pool, count, true, [&](std::span<std::byte> keys, std::span<std::byte> values) {
    return pool.read(sequence, layer, kv_head, first, count, keys, values);
  });
}

/// Rows [64, dim] of a page, which live as long as the pool's object does.
nb::object rows_there(std::span<const std::byte> rows, std::size_t dim, std::uint8_t dtype,
                      nb::handle pool) {
  const std::size_t shape[] = {NKV_PAGE_TOKENS, dim};
  const nb::dlpack::dtype element =
      element_bytes(dtype) == 2 ? nb::dtype<std::uint16_t>() : nb::dtype<std::uint8_t>();
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(rows.data(), 2, shape, pool, nullptr, element));
}

nb::list rows_of_pages(nb::handle self, std::uint64_t sequence, std::uint16_t layer,
                       std::uint16_t kv_head) {
  Pool& pool = nb::cast<Pool&>(self);
  const ModelShape& shape = pool.shape();
  std::vector<RowsOfPage> pages;
  run(pool, [&] { return rows_in_place(pool, sequence, layer, kv_head, &pages); });
  nb::list rows;
  for (const RowsOfPage& page : pages) {
    const nb::object keys = rows_there(page.keys, shape.head_dim, shape.dtype, self);
    const std::size_t value_dim = page.values.empty() ? 0 : shape.value_dim;
    rows.append(nb::make_tuple(keys, rows_there(page.values, value_dim, shape.dtype, self)));
  }
  return rows;
}

std::uint64_t scrub(Pool& pool, std::uint64_t sequence) {
  std::uint64_t pages = 0;
  run(pool, [&] { return pool.scrub(sequence, &pages); });
  return pages;
}

std::uint64_t near_bytes(const NearStats& stats) {
  return stats.stream_bytes + stats.refine_bytes + stats.exact_bytes + stats.value_bytes;
}

void bind_statistics(nb::module_& module) {
  nb::class_<NearStats>(module, "NearStats", "What near-data work cost since reset_stats().")
      .def_ro("commands", &NearStats::commands)
      .def_ro("link_to_device_bytes", &NearStats::link_to_device_bytes,
              "Commands, queries, rows written.")
      .def_ro("link_from_device_bytes", &NearStats::link_from_device_bytes,
              "Completions and results.")
      .def_ro("stream_bytes", &NearStats::stream_bytes, "Read near the data: first pass.")
      .def_ro("refine_bytes", &NearStats::refine_bytes, "Read near the data: refinement.")
      .def_ro("exact_bytes", &NearStats::exact_bytes, "Read near the data: exact keys.")
      .def_ro("value_bytes", &NearStats::value_bytes, "Read near the data: values.")
      .def_prop_ro("near_bytes", &near_bytes, "Read near the data: all stages.")
      .def_ro("device_ticks", &NearStats::device_ticks)
      .def_ro("nonfinite", &NearStats::nonfinite,
              "Commands that left tokens out for a NaN or infinity in a key.")
      .def_ro("dense_fallbacks", &NearStats::dense_fallbacks,
              "TAIL and BOUNDED commands that read dense.");
  nb::class_<PoolUsage>(module, "PoolUsage", "What a pool holds.")
      .def_ro("total_bytes", &PoolUsage::total_bytes)
      .def_ro("page_bytes", &PoolUsage::page_bytes, "Held by pages, shared ones counted once.")
      .def_ro("pages", &PoolUsage::pages)
      .def_ro("sequences", &PoolUsage::sequences)
      .def_ro("damaged_pages", &PoolUsage::damaged_pages,
              "That open() found: gone, with what followed them in their sequences.")
      .def_prop_ro(
          "oldest_check_s",
          [](const PoolUsage& self) {
            return std::chrono::duration<double>(self.oldest_check).count();
          },
          "Longest that a page had gone without a comparison with its checksums when its last one "
          "was relied on; 0 where pages are compared each time that they are read.");
}

template <StartPool kStart>
void bind_pool_start(nb::class_<Pool>& pool, const char* name, const char* doc) {
  const Pool::Options defaults;
  pool.def_static(
      name, &start_pool<kStart>, "device"_a, nb::kw_only(), "layers"_a, "kv_heads"_a, "head_dim"_a,
      "value_dim"_a = nb::none(), "dtype"_a = std::uint8_t{NKV_DTYPE_BF16}, "k_form"_a = nb::none(),
      "v_form"_a = nb::none(), "max_sequences"_a = defaults.max_sequences,
      "staging_bytes"_a = defaults.staging_bytes, "memory_bytes"_a = defaults.memory_bytes,
      "timeout_s"_a = std::chrono::duration<double>(defaults.timeout).count(),
      "codes"_a = defaults.codes, doc);
}

}  // namespace

void bind_pool(nb::module_& module) {
  const AttendOptions attend_defaults;
  const Pool::TopKRequest top_k_defaults;
  bind_statistics(module);
  nb::enum_<ColdPages>(module, "ColdPages", "What a query makes of compressed pages.")
      .value("REFUSE", ColdPages::kRefuse, "Error COLD_PAGE.")
      .value("SKIP", ColdPages::kSkip, "They are left out, as if their tokens were not there.")
      .value("DECODE", ColdPages::kDecode,
             "They are decoded near the data for this call, and stay compressed.");

  nb::class_<Pool> pool(
      module, "Pool",
      "KV pages of many sequences on one device.\n\n"
      "Arrays may come from any library that speaks DLPack (torch, numpy, jax); libraries without\n"
      "bfloat16 hand it over as uint16. Tokens come in whole pages of 64. All calls may be made\n"
      "from any thread and release the GIL. They raise Error for what device or pool refuse,\n"
      "ValueError and TypeError for arrays of a wrong shape or type.");
  bind_pool_start<&Pool::create>(
      pool, "create",
      "Formats the device's memory; whatever it held is lost. `dtype` is a `Dtype`, the forms are\n"
      "`RowForm`s: by default DELTA4 for bf16 and RAW for all else. v_form NONE: values are the\n"
      "leading channels of the keys (MLA). staging_bytes 0: chosen by size. memory_bytes 0: all\n"
      "of the device's; otherwise what is behind them is others'. `codes`: pages get codes, which\n"
      "the modes TAIL and BOUNDED and Select.STATISTICAL read by; they add a quarter of a bf16\n"
      "page's bytes, and Error UNSUPPORTED comes of a device that makes none.");
  bind_pool_start<&Pool::open>(
      pool, "open",
      "Takes up what `create` and earlier work left; the arguments are those of then, but `codes`\n"
      "may be others, for pages to come.");
  pool.def_prop_ro("layers", [](const Pool& self) { return self.shape().layers; })
      .def_prop_ro("kv_heads", [](const Pool& self) { return self.shape().kv_heads; })
      .def_prop_ro("head_dim", [](const Pool& self) { return self.shape().head_dim; })
      .def_prop_ro("value_dim", [](const Pool& self) { return self.shape().value_dim; })
      .def_prop_ro("dtype", [](const Pool& self) { return self.shape().dtype; })
      .def_prop_ro("k_form", [](const Pool& self) { return self.shape().k_form; })
      .def_prop_ro("v_form", [](const Pool& self) { return self.shape().v_form; })
      .def_prop_ro("codes", &Pool::has_codes, "Whether pages that are appended get codes.")
      .def("set_gains", &set_gains, "layer"_a, "kv_head"_a, "gains"_a,
           "Says by what the keys of one (layer, KV head) are multiplied before they are coded:\n"
           "int8 [head_dim], sixteenths of octaves, as nearkv.calibration.gains_from gives them.\n"
           "Error EXISTS where pages have others already: one set is for all sequences.")
      .def("gains", &gains_of, "layer"_a, "kv_head"_a,
           "Those that were set or that pages have, int8 [head_dim]; None while there are none.")
      .def(
          "create_sequence",
          [](Pool& self, std::uint64_t sequence) {
            run(self, [&] { return self.create_sequence(sequence); });
          },
          "sequence"_a)
      .def(
          "fork",
          [](Pool& self, std::uint64_t parent, std::uint64_t child, std::uint32_t tokens) {
            run(self, [&] { return self.fork(parent, child, tokens); });
          },
          "parent"_a, "child"_a, "tokens"_a,
          "Makes `child` share the first `tokens` tokens (whole pages) of `parent`; both may then\n"
          "append.")
      .def(
          "drop",
          [](Pool& self, std::uint64_t sequence) {
            run(self, [&] { return self.drop(sequence); });
          },
          "sequence"_a, "Forgets a sequence; its pages are freed once no fork shares them.")
      .def(
          "append", &append_rows, "sequence"_a, "layer"_a, "keys"_a, "values"_a = nb::none(),
          "Adds tokens, a multiple of 64, to one layer: keys [kv_heads, tokens, head_dim] and\n"
          "values [kv_heads, tokens, value_dim] in the pool's dtype, any strides of the first two\n"
          "axes (transpose a [tokens, kv_heads, dim] array). On any error nothing has changed.")
      .def("tokens", &tokens_of, "sequence"_a, "layer"_a, "Tokens of one layer.")
      .def(
          "attend", &attend, "sequence"_a, "layer"_a, "queries"_a, nb::kw_only(), "scale"_a,
          "mode"_a = attend_defaults.mode, "tokens"_a = attend_defaults.tokens,
          "window"_a = attend_defaults.window, "sinks"_a = attend_defaults.sinks,
          "soft_cap"_a = attend_defaults.soft_cap, "top_k"_a = attend_defaults.top_k,
          "error"_a.sig("0.05") = attend_defaults.error, "byte_cap"_a = attend_defaults.byte_cap,
          "z16"_a = attend_defaults.z16, "first_kv_head"_a = std::uint16_t{0},
          "cold"_a = attend_defaults.cold, "bound"_a.noconvert() = nb::none(),
          "Attention of one layer near the data: (O, LSE).\n\n"
          "queries: [kv_heads, rows, head_dim], contiguous, of KV heads `first_kv_head` and on,\n"
          "in bf16, fp16 or fp32; rows are the query heads of a KV head times new tokens. With a\n"
          "list of sequences: [sequences, kv_heads, rows, head_dim].\n"
          "O [..., rows, value_dim] fp32 is normalised, LSE [..., rows] fp32 is natural, -inf\n"
          "(and O zero) where nothing is visible.\n\n"
          "mode: an `AttendMode`: DENSE; TAIL with top_k; BOUNDED with error, byte_cap (in 1/256\n"
          "of a dense read, 0 none) and z16 (standard deviations, in sixteenths; 0: the usual).\n"
          "tokens: causal limit, 0 for all. window: the last `window` tokens below it, 0 for all;\n"
          "`sinks` first tokens stay visible. cold: `ColdPages`, what is made of compressed "
          "pages.\n"
          "bound: float32 array that receives the error bound of each row.")
      .def(
          "top_k", &top_k, "sequence"_a, "layer"_a, "kv_head"_a, "queries"_a, "k"_a, nb::kw_only(),
          "scale"_a = top_k_defaults.scale, "mode"_a = top_k_defaults.mode,
          "z16"_a = top_k_defaults.z16, "tokens"_a = top_k_defaults.tokens,
          "window"_a = top_k_defaults.window, "sinks"_a = top_k_defaults.sinks,
          "weights"_a = nb::none(), "cold"_a = top_k_defaults.cold,
          "The best k tokens of one KV head for each of queries [rows, head_dim]: ids uint32 and\n"
          "scores fp32 [rows, k], counts uint32 [rows]. Beyond a row's count ids are 2**32 - 1\n"
          "and scores -inf. mode: a `Select`. FULL is exact. STATISTICAL reads fewer keys and may\n"
          "miss some of the best; z16 (standard deviations, in sixteenths; 0: the usual) says\n"
          "how rarely.\n"
          "INDEXER takes float32 weights [rows] and keys of form RAW: one list for all rows, [1, "
          "k],\n"
          "by the sum over rows of weight * max(q k, 0).")
      .def("gather", &gather, "sequence"_a, "layer"_a, "kv_head"_a, "ids"_a, nb::kw_only(),
           "values"_a = true,
           "K rows [ids, head_dim] and V rows [ids, value_dim] of chosen tokens, as uint16 for\n"
           "elements of two bytes and uint8 for one. values=False: no V rows.")
      .def("read", &read, "sequence"_a, "layer"_a, "kv_head"_a, "first"_a, "count"_a,
           "Rows [first, first + count) as `gather` gives them.")
      .def("rows_in_place", &rows_of_pages, "sequence"_a, "layer"_a, "kv_head"_a,
           "K and V rows of each page, [64, head_dim] and [64, value_dim], where they lie: views,\n"
           "as `gather` has elements, which nobody may write to. Of pools with k_form and v_form "
           "RAW\n"
           "(or v_form NONE: no V). Verified now; good until the page is freed, which a fork\n"
           "prevents, or transcoded.")
      .def("scrub", &scrub, "sequence"_a,
           "Verifies every checksum of a sequence; gives the number of pages.")
      .def(
          "transcode",
          [](Pool& self, std::uint64_t sequence, std::uint8_t codec) {
            run(self, [&] { return self.transcode(sequence, codec); });
          },
          "sequence"_a, "codec"_a,
          "Cools a sequence's pages into a `Codec`, or warms them with Codec.NONE. While they are\n"
          "compressed they cannot be read or attended to, but for `cold` of attend() and top_k().")
      .def(
          "transcode_pages",
          [](Pool& self, std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head,
             const std::vector<std::uint32_t>& pages, std::uint8_t codec) {
            std::uint32_t moved = 0;
            run(self,
                [&] { return self.transcode(sequence, layer, kv_head, pages, codec, &moved); });
            return moved;
          },
          "sequence"_a, "layer"_a, "kv_head"_a, "pages"_a, "codec"_a,
          "The same of chosen pages of one KV head, by number; gives how many were rewritten: "
          "none\n"
          "that was in the codec, and to cool them none that a fork shares.")
      .def(
          "codecs",
          [](Pool& self, std::uint64_t sequence, std::uint16_t layer, std::uint16_t kv_head) {
            std::vector<std::uint8_t> codecs;
            run(self, [&] { return self.codecs(sequence, layer, kv_head, &codecs); });
            return codecs;
          },
          "sequence"_a, "layer"_a, "kv_head"_a, "The `Codec` of each page of one KV head.")
      .def("stats", &Pool::stats, nb::call_guard<nb::gil_scoped_release>())
      .def("reset_stats", &Pool::reset_stats, nb::call_guard<nb::gil_scoped_release>())
      .def("usage", &Pool::usage, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace nearkv::python
