#include "transfer.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "error.hpp"
#include "pages.hpp"

namespace nb = nanobind;

namespace nearkv::python {
namespace {

Key key_of(const nb::bytes& key) { return {static_cast<const std::byte*>(key.data()), key.size()}; }

bool is_list(nb::handle object) {
  return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

/// One status each, and the sizes as uint32 in this host's order, for Python to read if it asks.
nb::tuple outcome_of(const JobResult& result) {
  return nb::make_tuple(nb::bytes(result.items.data(), result.items.size()),
                        nb::bytes(result.object_bytes.data(), 4 * result.object_bytes.size()));
}

/// Whether a status of an item says that it is too large: then its size goes with it.
bool tells_size(Status status) {
  return status == Status::kObjectTooLarge || status == Status::kWindowTooSmall;
}

}  // namespace

Transfer::Transfer(const Job& options, nb::handle keys, nb::handle memory, std::uint16_t first_part,
                   std::uint16_t part_count)
    : job_(options), keys_(keys), parent_(options.parent.data(), options.parent.size()) {
  items_.reserve(keys_.span().size());
  for (const Key& key : keys_.span()) items_.push_back({key, {}, {}, first_part, part_count});
  if (nb::isinstance<PageList>(memory)) {
    take_pages(memory);
  } else if (!memory.is_none()) {
    take_list(memory);
  }
  job_.items = items_;
  job_.parent = key_of(parent_);
  job_.lists_stay = true;
}

bool Transfer::reads() const {
  return job_.kind == JobKind::kSet || job_.kind == JobKind::kSetParts;
}

std::uint32_t Transfer::size_of(std::size_t item) const {
  std::uint64_t bytes = job_.kind == JobKind::kSetParts ? job_.object_bytes : 0;
  if (bytes == 0) {
    for (const auto& segment : items_[item].source) bytes += segment.size();
    for (const auto& segment : items_[item].target) bytes += segment.size();
  }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
}

void Transfer::take_pages(nb::handle pages) {
  const auto& list = nb::cast<const PageList&>(pages);
  if (list.blocks() != items_.size()) {
    throw nb::value_error(
        (std::to_string(list.blocks()) + " blocks are not one for each of the keys").c_str());
  }
  pages_ = nb::borrow(pages);
  if (reads()) {
    list.append_to(&sources_);
  } else {
    list.append_to(&targets_);
  }
  std::vector<std::size_t> ends(items_.size());
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = (i + 1) * list.layers();
  deal_out(ends);
}

void Transfer::take_list(nb::handle memory) {
  if (!is_list(memory) || nb::len(memory) != items_.size()) {
    throw nb::value_error("there must be a list with one buffer, or list of buffers, per key");
  }
  std::vector<std::size_t> ends;
  for (const nb::handle one : nb::iter(memory)) {
    if (is_list(one)) {
      for (const nb::handle piece : nb::iter(one)) {
        if (is_list(piece)) throw nb::type_error("lists of buffers are one deep");
        take_memory(piece);
      }
    } else {
      take_memory(one);
    }
    ends.push_back(segments());
  }
  deal_out(ends);
}

void Transfer::take_memory(nb::handle piece) {
  memory_.emplace_back(piece, reads() ? Access::kRead : Access::kWrite);
  if (reads()) {
    sources_.push_back(memory_.back().bytes());
  } else {
    targets_.push_back(memory_.back().bytes());
  }
}

void Transfer::deal_out(std::span<const std::size_t> ends) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::size_t count = ends[i] - begin;
    if (reads()) {
      items_[i].source = std::span(sources_).subspan(begin, count);
    } else {
      items_[i].target = std::span(targets_).subspan(begin, count);
    }
    begin = ends[i];
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
  std::vector<std::size_t> ends;
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
    take_memory(room);
    ends.push_back(segments());
    left.push_back(items_[i]);
    places_.push_back(i);
  }
  items_ = std::move(left);
  deal_out(ends);
  job_.items = items_;
}

nb::object Transfer::room() const { return room_ ? nb::object(*room_) : nb::none(); }

nb::tuple Transfer::outcome(const JobResult& result) const {
  if (!found_ && std::ranges::any_of(result.items, tells_size)) {
    JobResult told = result;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (tells_size(told.items[i])) told.object_bytes[i] = size_of(i);
    }
    return outcome_of(told);
  }
  if (!found_) return outcome_of(result);
  JobResult all = *found_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    all.items[places_[i]] = result.items[i];
    all.object_bytes[places_[i]] = result.object_bytes[i];
  }
  return outcome_of(all);
}

}  // namespace nearkv::python
