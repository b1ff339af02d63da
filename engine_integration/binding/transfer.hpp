// A job as Python gave it, with all that it needs until it is over.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "keys.hpp"
#include "lent_memory.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv::python {

/// The memory, keys and results of one job. Needs the GIL but to be moved.
class Transfer {
 public:
  /// `memory`: for each key a buffer, or a list or tuple of such; or a PageList. None: for jobs
  /// that need none, and for gets into fresh memory, once make_room() has made it. `options` has
  /// all but items.
  Transfer(const Job& options, nanobind::handle keys, nanobind::handle memory,
           std::uint16_t first_part, std::uint16_t part_count);

  [[nodiscard]] const Job& job() const { return job_; }

  /// For a get without memory: asks the store for sizes and makes a bytearray for each object that
  /// is there; the others are not asked for again. Raises Error.
  void make_room(ObjectStore* store);

  /// The bytearrays of make_room(), None for what was not there; None in all if there are none.
  [[nodiscard]] nanobind::object room() const;

  /// One status each, and object_bytes as uint32, both as bytes, in the order of the keys.
  [[nodiscard]] nanobind::tuple outcome(const JobResult& result) const;

 private:
  [[nodiscard]] bool reads() const;  ///< Rather than writes to its memory.

  /// Bytes of an item, or of the whole object that it is a part of; 2^32 - 1 for more.
  [[nodiscard]] std::uint32_t size_of(std::size_t item) const;

  void take_pages(nanobind::handle pages);
  void take_list(nanobind::handle memory);
  void take_memory(nanobind::handle piece);

  /// How many segments there are so far.
  [[nodiscard]] std::size_t segments() const { return sources_.size() + targets_.size(); }

  /// Gives each item its segments, the last of which is before its end.
  void deal_out(std::span<const std::size_t> ends);

  Job job_;
  Keys keys_;
  nanobind::bytes parent_;
  std::vector<LentMemory> memory_;
  nanobind::object pages_;                           ///< Alive, as is their memory.
  std::vector<std::span<const std::byte>> sources_;  ///< Of all items, in their order.
  std::vector<std::span<std::byte>> targets_;        ///< The same.
  std::vector<ObjectItem> items_;

  // After make_room(): what it found out, and the caller's numbers of the items that are left.
  std::optional<JobResult> found_;
  std::vector<std::size_t> places_;
  std::optional<nanobind::list> room_;
};

}  // namespace nearkv::python
