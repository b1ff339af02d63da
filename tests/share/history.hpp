// What the hosts have done, and what readers may therefore see.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "share/object_index.hpp"

namespace nearkv::test {

using Bytes = std::vector<std::byte>;

/// The oracle. Each report of something impossible is kept; the first tells most.
class History {
 public:
  void will_publish(const ObjectKey& key, const Bytes& bytes) {
    attempted_[key].insert(text(bytes));
  }
  void published(const ObjectId& id, const ObjectKey& key, const Bytes& bytes) {
    check(bind(id, 0, bytes), "two contents under one generation");
    acknowledged_[id] = key;
  }
  void will_remove(const ObjectId& id) { removed_.insert(id); }

  /// A reader got these bytes.
  void read(const ObjectKey& key, const ObjectId& id, std::uint32_t version, const Bytes& bytes) {
    const auto attempts = attempted_.find(key);
    check(attempts != attempted_.end() && attempts->second.contains(text(bytes)),
          "bytes that nobody published under this key");
    check(bind(id, version, bytes), "other bytes than before under one generation");
  }

  void will_write(const ObjectKey& key, const Bytes& bytes) { will_publish(key, bytes); }
  /// The home has said that the version is published.
  void written(const ObjectId& id, std::uint32_t version, const Bytes& bytes) {
    check(bind(id, version, bytes), "two contents of one version");
    newest_[id] = std::max(newest_[id], version);
  }
  /// A coherent read that begins now must not return an older one.
  [[nodiscard]] std::uint32_t newest(const ObjectId& id) const {
    const auto found = newest_.find(id);
    return found == newest_.end() ? 0 : found->second;
  }

  void check(bool is_right, const std::string& what) {
    if (!is_right) wrongs_.push_back(what);
  }

  /// Acknowledged, and never ended by an owner: must be found.
  [[nodiscard]] std::map<ObjectId, ObjectKey> lasting() const {
    std::map<ObjectId, ObjectKey> result = acknowledged_;
    for (const ObjectId& id : removed_) result.erase(id);
    return result;
  }
  [[nodiscard]] const std::vector<std::string>& wrongs() const { return wrongs_; }

 private:
  static std::string text(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool bind(const ObjectId& id, std::uint32_t version, const Bytes& bytes) {
    return contents_.insert({{id, version}, text(bytes)}).first->second == text(bytes);
  }

  std::map<ObjectKey, std::set<std::string>> attempted_;
  std::map<ObjectId, ObjectKey> acknowledged_;
  std::set<ObjectId> removed_;
  std::map<std::pair<ObjectId, std::uint32_t>, std::string> contents_;
  std::map<ObjectId, std::uint32_t> newest_;
  std::vector<std::string> wrongs_;
};

}  // namespace nearkv::test
