// Keys of objects, as Python names them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv::python {

/// Keys, copied together: it can outlive what they were made of, and be moved without the GIL.
class Keys {
 public:
  /// `keys`: a sequence of bytes, or an array of bytes [keys, bytes], of which each row is a key.
  /// TypeError, ValueError for all else.
  explicit Keys(nanobind::handle keys);

  [[nodiscard]] std::span<const Key> span() const { return keys_; }

 private:
  void take_rows(nanobind::handle rows);
  void take_each(nanobind::handle keys);

  std::vector<std::byte> bytes_;
  std::vector<Key> keys_;  ///< In bytes_.
};

}  // namespace nearkv::python
