#include "transfer.hpp"

#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "error.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

Key key_of(const nb::bytes& key) { return {static_cast<const std::byte*>(key.data()), key.size()}; }

bool is_list(nb::handle object) {
  return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

nb::object statuses_of(const JobResult& result) {
  return nb::bytes(result.items.data(), result.items.size());
}

}  // namespace

Keys::Keys(nb::handle keys) {
  for (const nb::handle key : nb::iter(keys)) {
    if (!nb::isinstance<nb::bytes>(key)) {
      throw nb::type_error(("keys are bytes, not " + class_name(key)).c_str());
    }
    objects_.push_back(nb::borrow<nb::bytes>(key));
    keys_.push_back(key_of(objects_.back()));
  }
}

Transfer::Transfer(const Job& options, nb::handle keys, nb::handle memory, std::uint16_t first_part,
                   std::uint16_t part_count)
    : job_(options), keys_(keys), parent_(options.parent.data(), options.parent.size()) {
  const std::span<const Key> names = keys_.span();
  segments_.resize(names.size());
  if (!memory.is_none()) {
    if (!is_list(memory) || nb::len(memory) != names.size()) {
      throw nb::value_error("there must be a list with one buffer, or list of buffers, per key");
    }
    std::size_t i = 0;
    for (const nb::handle piece : nb::iter(memory)) take_memory(piece, &segments_[i++]);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    items_.push_back({names[i], segments_[i].source, segments_[i].target, first_part, part_count});
  }
  job_.items = items_;
  job_.parent = key_of(parent_);
}

void Transfer::take_memory(nb::handle piece, Item* item) {
  if (is_list(piece)) {
    for (const nb::handle inner : nb::iter(piece)) {
      if (is_list(inner)) throw nb::type_error("lists of buffers are one deep");
      take_memory(inner, item);
    }
    return;
  }
  const bool reads = job_.kind == JobKind::kSet || job_.kind == JobKind::kSetParts;
  memory_.emplace_back(piece, reads ? Access::kRead : Access::kWrite);
  if (reads) {
    item->source.push_back(memory_.back().bytes());
  } else {
    item->target.push_back(memory_.back().bytes());
  }
}

void Transfer::make_room(ObjectStore* store) {
  found_.emplace();
  Status status = Status::kOk;
  {
    const nb::gil_scoped_release release;
    status = store->run(job_, &*found_);
  }
  check(status);
  room_.emplace();
  std::vector<ObjectItem> left;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::uint32_t bytes = found_->object_bytes[i];
    if (found_->items[i] != Status::kBadArgument || bytes == 0) {
      // An object's last parts may be empty.
      room_->append(found_->items[i] == Status::kOk
                        ? nb::steal(PyByteArray_FromStringAndSize(nullptr, 0))
                        : nb::none());
      continue;
    }
    const nb::object room = nb::steal(PyByteArray_FromStringAndSize(nullptr, bytes));
    if (!room.is_valid()) throw nb::python_error();
    room_->append(room);
    take_memory(room, &segments_[i]);
    items_[i].target = segments_[i].target;
    left.push_back(items_[i]);
    places_.push_back(i);
  }
  items_ = std::move(left);
  job_.items = items_;
}

nb::object Transfer::room() const { return room_ ? nb::object(*room_) : nb::none(); }

nb::tuple Transfer::outcome(const JobResult& result) const {
  if (!found_) {
    return nb::make_tuple(statuses_of(result), nb::cast(result.object_bytes));
  }
  JobResult all = *found_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    all.items[places_[i]] = result.items[i];
    all.object_bytes[places_[i]] = result.object_bytes[i];
  }
  return nb::make_tuple(statuses_of(all), nb::cast(all.object_bytes));
}

}  // namespace nearkv::python
