// A job that outlives its submitter's call.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nearkv/object_store.hpp"

namespace nearkv {

/// A job with its own copies of keys and lists of segments, unless the submitter's stay. The memory
/// that segments name stays the submitter's.
class OwnedJob {
 public:
  explicit OwnedJob(const Job& submitted) : job_(submitted) {
    if (submitted.lists_stay) return;
    parent_ = copy_of(submitted.parent);
    for (const ObjectItem& item : submitted.items) {
      keys_.push_back(copy_of(item.key));
      sources_.emplace_back(item.source.begin(), item.source.end());
      targets_.emplace_back(item.target.begin(), item.target.end());
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      ObjectItem item = submitted.items[i];
      item.key = keys_[i];
      item.source = sources_[i];
      item.target = targets_[i];
      items_.push_back(item);
    }
    job_.items = items_;
    job_.parent = parent_;
  }
  OwnedJob(const OwnedJob&) = delete;
  OwnedJob& operator=(const OwnedJob&) = delete;

  [[nodiscard]] const Job& job() const { return job_; }

 private:
  static std::vector<std::byte> copy_of(Key key) { return {key.begin(), key.end()}; }

  Job job_;
  std::vector<std::byte> parent_;
  std::vector<std::vector<std::byte>> keys_;
  std::vector<std::vector<std::span<const std::byte>>> sources_;
  std::vector<std::vector<std::span<std::byte>>> targets_;
  std::vector<ObjectItem> items_;
};

}  // namespace nearkv
