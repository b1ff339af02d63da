// Requests that wait for a worker with room, measured by a router's index.
#include "klpm_queue.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "error.hpp"
#include "hashes.hpp"
#include "module.hpp"
#include "router.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using router::KlpmQueue;
using router::PrefixMatch;
using router::Router;
using router::WaitingRequest;
using router::WorkerId;

/// A KlpmQueue with what it needs to measure its requests itself: their blocks' hashes, and the
/// workers that each may go to. One thread at a time.
class WaitingPrompts {
 public:
  WaitingPrompts(std::uint32_t k, std::size_t most) : queue_(k, most) {}

  void push(std::uint64_t id, const std::string& tenant, nb::handle hashes, std::uint32_t blocks,
            std::vector<WorkerId> among) {
    const Hashes lent(hashes);
    const Status status = queue_.push({id, tenant, blocks});
    if (status == Status::kPoolFull) check(status, "too many requests wait");
    if (status == Status::kExists) check(status, "a request of that id waits");
    check(status);
    prompts_[id] = {{lent.span().begin(), lent.span().end()}, std::move(among)};
  }

  std::optional<std::uint64_t> pop(const Router& router, const std::vector<WorkerId>& with_room) {
    WaitingRequest next;
    Status status = Status::kOk;
    {
      const nb::gil_scoped_release release;
      const auto measure = [&](const WaitingRequest& request) {
        return best(router, prompts_.at(request.id), with_room);
      };
      status = queue_.pop(measure, &next);
    }
    if (status == Status::kNotFound) return std::nullopt;
    check(status);
    prompts_.erase(next.id);
    return next.id;
  }

  void erase(std::uint64_t id) {
    const Status status = queue_.erase(id);
    check(status, status == Status::kNotFound ? "no request of that id waits" : std::string());
    prompts_.erase(id);
  }

  [[nodiscard]] std::size_t size() const { return queue_.size(); }

 private:
  struct Prompt {
    std::vector<std::uint64_t> hashes;
    std::vector<WorkerId> among;
  };

  std::optional<std::uint32_t> best(const Router& router, const Prompt& prompt,
                                    const std::vector<WorkerId>& with_room) {
    const auto may_go = [&](WorkerId id) {
      return std::ranges::find(prompt.among, id) != prompt.among.end();
    };
    if (std::ranges::none_of(with_room, may_go)) return std::nullopt;
    if (router.match(prompt.hashes, &match_) != Status::kOk) return 0;
    std::uint32_t most = 0;
    for (const WorkerId id : with_room) {
      if (may_go(id) && id < match_.prefixes().size()) {
        most = std::max(most, match_.prefixes()[id].total());
      }
    }
    return most;
  }

  KlpmQueue queue_;
  std::unordered_map<std::uint64_t, Prompt> prompts_;
  PrefixMatch match_;
};

}  // namespace

void bind_klpm_queue(nb::module_& module) {
  nb::class_<WaitingPrompts>(module, "KlpmQueue",
                             "Who is routed next: k-LPM, fair among tenants. One thread at a time.")
      .def(nb::init<std::uint32_t, std::size_t>(), "k"_a, "most"_a)
      .def("push", &WaitingPrompts::push, "id"_a, "tenant"_a, "hashes"_a, "blocks"_a, "among"_a,
           "Error POOL_FULL: `most` wait. `among`: the workers that it may go to.")
      .def("pop", &WaitingPrompts::pop, "router"_a, "with_room"_a,
           "The id of the next that can go to a worker with room, or None.")
      .def("erase", &WaitingPrompts::erase, "id"_a, "Its client has gone. Error NOT_FOUND.")
      .def("__len__", &WaitingPrompts::size);
}

}  // namespace nearkv::python
