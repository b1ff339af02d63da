#include "nearkv/lent_queue.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <string>

#include "error.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

/// Keeps its device open.
class Lent {
 public:
  Lent(std::shared_ptr<Device> device, unsigned index, std::uint32_t ring_entries,
       std::uint64_t rings_at, std::uint64_t doorbells_at)
      : device_(std::move(device)) {
    LentQueue::Options options;
    options.queue.index = index;
    options.queue.ring_entries = ring_entries;
    options.queue.rings_at = rings_at;
    options.queue.window_bytes = device_->memory().size();
    options.doorbells_at = doorbells_at;
    const Status status = LentQueue::open(device_.get(), options, &queue_);
    check(status,
          status == Status::kUnsupported ? "the device has no doorbells in memory" : std::string());
  }

  [[nodiscard]] const LentQueue& queue() const { return *queue_; }
  [[nodiscard]] std::uint64_t ring_bytes() const {
    return Queue::ring_bytes(queue_->options().queue.ring_entries) / 2;
  }

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<LentQueue> queue_;
};

}  // namespace

void bind_lent_queue(nb::module_& module) {
  nb::class_<Lent>(
      module, "LentQueue",
      "A queue of a device that somebody without registers works, a GPU say, by stores\n"
      "to the device's memory; its window is all of that. The device stays open with it.\n"
      "Addresses are the device's: rings take `bytes(ring_entries)` of them, doorbells\n"
      "`doorbell_bytes()`, the same for all lent queues of a device.")
      .def(nb::init<std::shared_ptr<Device>, unsigned, std::uint32_t, std::uint64_t,
                    std::uint64_t>(),
           "device"_a, nb::kw_only(), "index"_a, "ring_entries"_a, "rings_at"_a, "doorbells_at"_a)
      .def_static("bytes", &Queue::ring_bytes, "ring_entries"_a)
      .def_static("doorbell_bytes", &LentQueue::doorbell_bytes)
      .def_prop_ro("submissions_at",
                   [](const Lent& self) { return self.queue().options().queue.rings_at; })
      .def_prop_ro("completions_at",
                   [](const Lent& self) {
                     return self.queue().options().queue.rings_at + self.ring_bytes();
                   })
      .def_prop_ro("doorbell_at", [](const Lent& self) { return self.queue().doorbell_at(); })
      .def_prop_ro("ring_entries",
                   [](const Lent& self) { return self.queue().options().queue.ring_entries; });
}

}  // namespace nearkv::python
