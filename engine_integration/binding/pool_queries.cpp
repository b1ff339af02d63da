#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "nearkv/in_place.hpp"
#include "nearkv/pool.hpp"
#include "pool.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using Sequences = std::variant<std::uint64_t, std::vector<std::uint64_t>>;
using Floats = nb::ndarray<nb::numpy, float>;
using Ids = nb::ndarray<nb::numpy, std::uint32_t>;
using Bounds = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using RowWeights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Attends for `sequences` sequences with as many requests each, one after another, and raises the
/// first error with the status of each sequence; 0: of one alone, without statuses.
void attend_each(Pool& pool, std::vector<AttendRequest>& requests, const AttendOptions& options,
                 std::size_t sequences) {
  std::vector<Status> outcomes(requests.size(), Status::kOk);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].status = &outcomes[i];
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = pool.attend(requests, options);
  }
  if (status == Status::kOk) return;
  std::vector<Status> statuses(sequences, Status::kOk);
  for (std::size_t i = requests.size(); sequences != 0 && i-- > 0;) {
    if (outcomes[i] != Status::kOk) statuses[i * sequences / requests.size()] = outcomes[i];
  }
  check(status, pool.last_error(), statuses);
}

std::tuple<Floats, Floats> attend(Pool& pool, const Sequences& which, std::uint16_t layer,
                                  const Array& queries, float scale, std::uint8_t mode,
                                  std::uint32_t tokens, std::uint32_t window, std::uint8_t sinks,
                                  float soft_cap, std::uint16_t top_k, float error,
                                  std::uint8_t byte_cap, std::uint8_t z16,
                                  std::uint16_t first_kv_head, ColdPages cold, bool if_faster,
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
  options.if_faster = if_faster;

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
  attend_each(pool, requests, options, many ? sequences.size() : 0);
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

}  // namespace

void bind_pool_queries(nb::module_& module, nb::class_<Pool>& pool) {
  const AttendOptions attend_defaults;
  const Pool::TopKRequest top_k_defaults;
  nb::enum_<ColdPages>(module, "ColdPages", "What a query makes of compressed pages.")
      .value("REFUSE", ColdPages::kRefuse, "Error COLD_PAGE.")
      .value("SKIP", ColdPages::kSkip, "They are left out, as if their tokens were not there.")
      .value("DECODE", ColdPages::kDecode,
             "They are decoded near the data for this call, and stay compressed.");

  pool.def(
          "attend", &attend, "sequence"_a, "layer"_a, "queries"_a, nb::kw_only(), "scale"_a,
          "mode"_a = attend_defaults.mode, "tokens"_a = attend_defaults.tokens,
          "window"_a = attend_defaults.window, "sinks"_a = attend_defaults.sinks,
          "soft_cap"_a = attend_defaults.soft_cap, "top_k"_a = attend_defaults.top_k,
          "error"_a.sig("0.05") = attend_defaults.error, "byte_cap"_a = attend_defaults.byte_cap,
          "z16"_a = attend_defaults.z16, "first_kv_head"_a = std::uint16_t{0},
          "cold"_a = attend_defaults.cold, "if_faster"_a = attend_defaults.if_faster,
          "bound"_a.noconvert() = nb::none(),
          "Attention of one layer near the data: (O, LSE).\n\n"
          "queries: [kv_heads, rows, head_dim], contiguous, of KV heads `first_kv_head` and on,\n"
          "in bf16, fp16 or fp32; rows are the query heads of a KV head times new tokens. With a\n"
          "list of sequences: [sequences, kv_heads, rows, head_dim]. Each of these fails for\n"
          "itself: an Error's `statuses` say which, and a call without them gives the others'.\n"
          "O [..., rows, value_dim] fp32 is normalised, LSE [..., rows] fp32 is natural, -inf\n"
          "(and O zero) where nothing is visible.\n\n"
          "mode: an `AttendMode`: DENSE; TAIL with top_k; BOUNDED with error, byte_cap (in 1/256\n"
          "of a dense read, 0 none) and z16 (standard deviations, in sixteenths; 0: the usual).\n"
          "tokens: causal limit, 0 for all. window: the last `window` tokens below it, 0 for all;\n"
          "`sinks` first tokens stay visible. cold: `ColdPages`, what is made of compressed "
          "pages.\n"
          "if_faster: BOUNDED and TAIL only while they are measured to be faster than DENSE.\n"
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
           "prevents, or transcoded.");
}

}  // namespace nearkv::python
