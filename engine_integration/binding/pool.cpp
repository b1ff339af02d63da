#include "nearkv/pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "error.hpp"
#include "module.hpp"
#include "pool.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using Gains = nb::ndarray<nb::numpy, std::int8_t>;
using GivenGains = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

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
  bind_statistics(module);
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
  bind_pool_queries(module, pool);
}

}  // namespace nearkv::python
