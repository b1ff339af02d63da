// Scheduling policies for an engine that keeps its own steps: nearkv.vllm.scheduler tells what vLLM
// does, and asks.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "advisor.hpp"
#include "error.hpp"
#include "hashes.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using scheduler::Advisor;
using scheduler::PolicyOptions;
using scheduler::RequestId;
using scheduler::Residency;
using scheduler::Seconds;

std::unique_ptr<Advisor> make_advisor(const std::string& policy, std::uint32_t block_tokens,
                                      std::uint32_t k, std::uint32_t window, Seconds longest_wait_s,
                                      double output_weight, double quantum_tokens,
                                      Seconds least_run_s, std::vector<double> shares,
                                      const std::vector<Seconds>& ttft_s,
                                      Seconds prefill_s_per_token) {
  PolicyOptions options;
  options.prefix_match = {.k = k, .window = window};
  options.cache_aware = {.window = window,
                         .prefill_s_per_token = prefill_s_per_token,
                         .longest_wait_s = longest_wait_s};
  options.fair_share = {.output_weight = output_weight,
                        .quantum_tokens = quantum_tokens,
                        .least_run_s = least_run_s,
                        .shares = std::move(shares)};
  options.slo = {.classes = {}, .prefill_s_per_token = prefill_s_per_token};
  for (const Seconds promised : ttft_s) options.slo.classes.push_back({.ttft_s = promised});
  std::unique_ptr<Advisor> advisor;
  std::string reason;
  const Status status = Advisor::open(policy, options, block_tokens, &advisor, &reason);
  check(status, reason);
  return advisor;
}

RequestId add(Advisor& advisor, Seconds now_s, std::uint32_t prompt_tokens,
              std::uint32_t most_output_tokens, nb::handle block_hashes, std::uint32_t tenant,
              std::uint32_t service_class, std::optional<std::uint32_t> group) {
  const Hashes lent(block_hashes);
  const auto hashes = lent.span();
  return advisor.add(now_s, {.prompt_tokens = std::max(prompt_tokens, 1U),
                             .most_output_tokens = std::max(most_output_tokens, 1U),
                             .block_hashes = {hashes.begin(), hashes.end()},
                             .tenant = tenant,
                             .service_class = service_class,
                             .group = group.value_or(scheduler::kNoGroup)});
}

/// `find` gives a request's blocks in the engine's memory.
std::optional<RequestId> next(Advisor& advisor, Seconds now_s, const nb::callable& find) {
  // A policy lets no exception but bad_alloc pass through it.
  std::optional<nb::python_error> raised;
  const Advisor::Find ask = [&](RequestId id) -> Residency {
    if (raised) return {};
    try {
      return {.pool_blocks = nb::cast<std::uint32_t>(find(id))};
    } catch (nb::python_error& error) {
      raised.emplace(error);
      return {};
    }
  };
  const auto chosen = advisor.next(now_s, ask);
  if (raised) throw nb::python_error(*raised);
  return chosen;
}

}  // namespace

void bind_scheduler(nb::module_& module) {
  module.def(
      "scheduling_policies",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : scheduler::policy_names()) names.emplace_back(name);
        return names;
      },
      "Names of the policies that there are.");
  nb::class_<Advisor>(
      module, "SchedulingAdvisor",
      "Who is next, who makes room, who gives way: for an engine that keeps its own "
      "steps. Requests are numbers; one thread at a time.")
      .def(nb::new_(&make_advisor), "policy"_a, nb::kw_only(), "block_tokens"_a, "k"_a = 8,
           "window"_a = 64, "longest_wait_s"_a = 10.0, "output_weight"_a = 2.0,
           "quantum_tokens"_a = 2000.0, "least_run_s"_a = 0.5, "shares"_a = std::vector<double>{1},
           "ttft_s"_a = std::vector<double>{1}, "prefill_s_per_token"_a = 0.0,
           "Error BAD_ARGUMENT lists the policies, or says what is out of its range.")
      .def("add", &add, "now_s"_a, nb::kw_only(), "prompt_tokens"_a, "most_output_tokens"_a,
           "block_hashes"_a, "tenant"_a = 0, "service_class"_a = 0, "group"_a = nb::none(),
           "A request has arrived, and waits; gives its number.")
      .def(
          "set_aside",
          [](Advisor& self, Seconds now_s, RequestId id) { check(self.set_aside(now_s, id)); },
          "now_s"_a, "id"_a, "It waits for something else than its turn.")
      .def(
          "wait", [](Advisor& self, Seconds now_s, RequestId id) { check(self.wait(now_s, id)); },
          "now_s"_a, "id"_a, "It waits for its turn again: was set aside, or preempted.")
      .def(
          "start",
          [](Advisor& self, Seconds now_s, RequestId id, std::uint32_t found_blocks) {
            check(self.start(now_s, id, {.pool_blocks = found_blocks}));
          },
          "now_s"_a, "id"_a, "found_blocks"_a, "It runs, and found so many blocks.")
      .def(
          "advance",
          [](Advisor& self, Seconds now_s, RequestId id, std::uint32_t computed,
             std::uint32_t generated) { check(self.advance(now_s, id, computed, generated)); },
          "now_s"_a, "id"_a, "computed"_a, "generated"_a, "A step has computed tokens of it.")
      .def(
          "end", [](Advisor& self, Seconds now_s, RequestId id) { check(self.end(now_s, id)); },
          "now_s"_a, "id"_a, "It is gone.")
      .def("next", &next, "now_s"_a, "find"_a,
           "Who should start, or None; `find` is asked for a waiting request's blocks that the "
           "engine holds.")
      .def("makes_room", &Advisor::makes_room, "now_s"_a, "candidate"_a,
           "Who of the running makes room for a waiting request, or None.")
      .def("order_of_giving_way", &Advisor::order_of_giving_way, "now_s"_a,
           "All that run, in the order in which they stop when blocks run out.");
}

}  // namespace nearkv::python
