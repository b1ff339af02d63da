// Retention policies: what of a sequence to keep. The package nearkv.retention has the rest.
#include "nearkv/retention.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arrays.hpp"
#include "error.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

template <typename T, std::size_t kAxes>
using In = nb::ndarray<const T, nb::ndim<kAxes>, nb::c_contig, nb::device::cpu>;

using Given = std::map<std::string, float>;

template <typename T, typename... Kind>
std::span<const T> span_of(const nb::ndarray<const T, Kind...>& array) {
  return {array.data(), array.size()};
}

Parameters parameters_of(const Given& given) { return {given.begin(), given.end()}; }

std::unique_ptr<RetentionPolicy> make_policy(const std::string& name, const Given& given) {
  std::unique_ptr<RetentionPolicy> policy;
  std::string reason;
  check(make_retention_policy(name, parameters_of(given), &policy, &reason), reason);
  return policy;
}

void append(RetentionPolicy& policy, std::uint32_t count,
            const std::optional<In<std::uint64_t, 1>>& sketches) {
  const Status status =
      policy.append(count, sketches ? span_of(*sketches) : std::span<const std::uint64_t>());
  check(status, status == Status::kUnsupported
                    ? "the policy " + policy.name() + " needs sketches of keys: key_sketches()"
                    : std::string("there must be one sketch for each token"));
}

/// Rows that are all as long as each other, which is how callers have them.
void observe(RetentionPolicy& policy, HeadStatistics* statistics, std::uint32_t position,
             const In<std::uint32_t, 2>& ids, const In<float, 2>& mass,
             const std::optional<In<std::uint32_t, 1>>& counts) {
  const auto rows = static_cast<std::uint32_t>(ids.shape(0));
  const auto stride = static_cast<std::uint32_t>(ids.shape(1));
  const std::vector<std::uint32_t> all(rows, stride);
  Observation seen;
  seen.position = position;
  seen.rows = rows;
  seen.stride = stride;
  seen.counts = counts ? span_of(*counts) : std::span<const std::uint32_t>(all);
  seen.ids = span_of(ids);
  seen.mass = span_of(mass);
  check(policy.observe(seen),
        "ids and mass are [rows, tokens] of tokens up to the position, which was appended; a mass "
        "is from 0 to 1");
  if (statistics != nullptr) statistics->observe(seen);
}

auto worth(const RetentionPolicy& policy) {
  Numpy<float> numbers({policy.tokens()});
  policy.worth(numbers.span());
  return numbers.release();
}

std::unique_ptr<RetentionPolicy> fork(const RetentionPolicy& policy, std::uint32_t tokens) {
  auto child = policy.fork(tokens);
  if (child == nullptr) throw nb::value_error("a fork has at most its parent's tokens");
  return child;
}

template <typename Saved>
nb::bytes save(const Saved& one) {
  const auto saved = one.save();
  return nb::bytes(saved.data(), saved.size());
}

template <typename Saved>
void restore(Saved& one, const nb::bytes& saved, const std::string& what) {
  check(one.restore({static_cast<const std::byte*>(saved.data()), saved.size()}),
        "this is nothing that " + what + " saved");
}

void bind_policy(nb::module_& module) {
  nb::class_<RetentionPolicy>(
      module, "RetentionPolicy",
      "What the tokens of one (layer, KV head) of a sequence are worth. Thread safety: one thread "
      "at\na time.")
      .def(nb::new_(&make_policy), "name"_a, "parameters"_a = Given(),
           "One that ships, by its name. Error BAD_ARGUMENT lists what there is.")
      .def_prop_ro("name", &RetentionPolicy::name)
      .def_prop_ro("tokens", &RetentionPolicy::tokens)
      .def_prop_ro("state_bytes_per_token", &RetentionPolicy::state_bytes_per_token)
      .def_prop_ro("needs_key_sketches",
                   [](const RetentionPolicy& policy) { return policy.needs().key_sketches; })
      .def("append", &append, "count"_a, "sketches"_a = nb::none(),
           "Tokens came. Error UNSUPPORTED without sketches, if it needs them.")
      .def("observe", &observe, nb::arg("statistics").none(), "position"_a, "ids"_a, "mass"_a,
           "counts"_a = nb::none(),
           "A query at `position` gave the tokens ids [rows, tokens] their mass of attention,\n"
           "exp(score - LSE); `statistics`, if not None, is told, too.")
      .def("worth", &worth, "A number for each token: the larger, the rather it stays.")
      .def("fork", &fork, "tokens"_a, "One that goes on from the first tokens.")
      .def("save", &save<RetentionPolicy>)
      .def(
          "restore",
          [](RetentionPolicy& policy, const nb::bytes& saved) {
            restore(policy, saved, "a policy " + policy.name());
          },
          "saved"_a);
}

nb::tuple retain_tokens(const In<float, 1>& worth, std::uint32_t exact_tokens,
                        std::uint32_t demoted_tokens, std::uint32_t sinks, std::uint32_t recent,
                        std::uint32_t grain, const std::vector<std::uint32_t>& pinned) {
  const RetentionBudget budget{exact_tokens, demoted_tokens, sinks, recent, grain};
  Retained kept;
  check(retain(span_of(worth), budget, pinned, &kept),
        "worth is a number for each token, grain at least 1, and pinned tokens are there");
  Numpy<std::uint8_t> how({kept.tokens.size()});
  for (std::size_t i = 0; i < kept.tokens.size(); ++i) {
    how.span()[i] = static_cast<std::uint8_t>(kept.tokens[i]);
  }
  return nb::make_tuple(how.release(), kept.beyond_budget);
}

void bind_budgets(nb::module_& module) {
  nb::enum_<Kept>(module, "Kept", "How a token stays.")
      .value("EXACT", Kept::kExact)
      .value("DEMOTED", Kept::kDemoted, "In a colder form, such as compressed.")
      .value("ABSENT", Kept::kAbsent);
  module.def("retain_tokens", &retain_tokens, "worth"_a, "exact_tokens"_a, "demoted_tokens"_a,
             "sinks"_a, "recent"_a, "grain"_a, "pinned"_a);
  nb::class_<HeadDemand>(module, "HeadDemand", "One (layer, KV head) that asks for a share.")
      .def(nb::init<std::uint32_t, float, std::uint32_t>(), "tokens"_a, "stability"_a = 0.0F,
           "steps_to_next_use"_a = 0);
  module.def(
      "share_budget",
      [](const std::string& rule, const std::vector<HeadDemand>& heads, std::uint64_t total_tokens,
         const Given& given) {
        std::vector<std::uint32_t> shares;
        std::string reason;
        check(share_budget(rule, parameters_of(given), heads, total_tokens, &shares, &reason),
              reason);
        return shares;
      },
      "rule"_a, "heads"_a, "total_tokens"_a, "parameters"_a);
  nb::class_<HeadStatistics>(module, "HeadStatistics", "How a head attends.")
      .def(nb::init<std::uint32_t, float>(), "page_tokens"_a, "window"_a = 32.0F,
           "`window`: queries after which older ones count half.")
      .def(
          "fork", [](const HeadStatistics& head) { return HeadStatistics(head); },
          "One that goes on from here.")
      .def_prop_ro("queries", &HeadStatistics::queries)
      .def_prop_ro("stability", &HeadStatistics::stability, "Share of pages selected again.")
      .def("save", &save<HeadStatistics>)
      .def(
          "restore",
          [](HeadStatistics& head, const nb::bytes& saved) {
            restore(head, saved, "statistics of the same pages and window");
          },
          "saved"_a);
}

void bind_prefetch(nb::module_& module) {
  module.def(
      "next_pages",
      [](const In<float, 1>& worth, std::uint32_t page_tokens, std::size_t count) {
        if (page_tokens == 0) throw nb::value_error("a page has tokens");
        return next_pages(span_of(worth), page_tokens, count);
      },
      "worth"_a, "page_tokens"_a, "count"_a);
  nb::class_<PrefetchRecord>(module, "PrefetchRecord", "What prefetches were good for.")
      .def(nb::init<>())
      .def(
          "add",
          [](PrefetchRecord& record, const std::vector<std::uint32_t>& fetched,
             const std::vector<std::uint32_t>& used) { record.add(fetched, used); },
          "fetched"_a, "used"_a, "Pages fetched before a query, and those that it used.")
      .def_prop_ro("coverage", &PrefetchRecord::coverage, "Share of the used pages.")
      .def_prop_ro("accuracy", &PrefetchRecord::accuracy, "Share of the fetched pages.");
}

auto key_sketches(const In<float, 2>& keys) {
  Numpy<std::uint64_t> sketches({keys.shape(0)});
  const std::size_t dim = keys.shape(1);
  for (std::size_t i = 0; i < keys.shape(0); ++i) {
    sketches.span()[i] = key_sketch({keys.data() + i * dim, dim});
  }
  return sketches.release();
}

template <typename Named>
nb::dict described(std::span<const Named> table) {
  nb::dict names;
  for (const Named& one : table) {
    nb::dict parameters;
    for (const Parameter& parameter : one.parameters) {
      parameters[nb::str(parameter.name.data(), parameter.name.size())] = parameter.value;
    }
    names[nb::str(one.name.data(), one.name.size())] = parameters;
  }
  return names;
}

}  // namespace

void bind_retention(nb::module_& module) {
  bind_policy(module);
  bind_budgets(module);
  module.def("key_sketches", &key_sketches, "keys"_a);
  module.def("retention_policies", [] { return described(shipped_retention_policies()); });
  module.def("retention_budgets", [] { return described(shipped_budgets()); });
  bind_prefetch(module);
}

}  // namespace nearkv::python
