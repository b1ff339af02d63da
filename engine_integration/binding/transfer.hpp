// A job as Python gave it, with all that it needs until it is over.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lent_memory.hpp"
#include "nearkv/object_store.hpp"

namespace nearkv::python {

/// Keys, in memory of bytes objects that they keep alive. Needs the GIL but to be moved.
class Keys {
 public:
  /// TypeError for what is not a sequence of bytes.
  explicit Keys(nanobind::handle keys);

  [[nodiscard]] std::span<const Key> span() const { return keys_; }

 private:
  std::vector<nanobind::bytes> objects_;
  std::vector<Key> keys_;
};

/// The memory, keys and results of one job. Needs the GIL but to be moved.
class Transfer {
 public:
  /// `memory`: for each key a buffer, or a list or tuple of such. None: for jobs that need none,
  /// and for gets into fresh memory, once make_room() has made it. `options` has all but items.
  Transfer(const Job& options, nanobind::handle keys, nanobind::handle memory,
           std::uint16_t first_part, std::uint16_t part_count);

  [[nodiscard]] const Job& job() const { return job_; }

  /// For a get without memory: asks the store for sizes and makes a bytearray for each object that
  /// is there; the others are not asked for again. Raises Error.
  void make_room(ObjectStore* store);

  /// The bytearrays of make_room(), None for what was not there; None in all if there are none.
  [[nodiscard]] nanobind::object room() const;

  /// One status each as bytes, and the list of object_bytes, in the order of the keys.
  [[nodiscard]] nanobind::tuple outcome(const JobResult& result) const;

 private:
  struct Item {
    std::vector<std::span<const std::byte>> source;
    std::vector<std::span<std::byte>> target;
  };

  void take_memory(nanobind::handle piece, Item* item);

  Job job_;
  Keys keys_;
  nanobind::bytes parent_;
  std::vector<LentMemory> memory_;
  std::vector<Item> segments_;
  std::vector<ObjectItem> items_;

  // After make_room(): what it found out, and the caller's numbers of the items that are left.
  std::optional<JobResult> found_;
  std::vector<std::size_t> places_;
  std::optional<nanobind::list> room_;
};

}  // namespace nearkv::python
