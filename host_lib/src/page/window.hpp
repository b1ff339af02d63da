// The part of device memory that a queue's commands may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "persist/persistence.hpp"

namespace nearkv {

class LentRows;
class PageChecks;

/// Every address of a command is an offset into its queue's window; this is the only place where
/// one becomes a pointer. Copyable view; knows how stores to the memory become durable.
class Window {
 public:
  Window() = default;
  /// `checks` may be null: then pages are compared with their checksums whenever they are read.
  Window(std::span<std::byte> bytes, std::uint16_t tenant, Persistence* persistence,
         PageChecks* checks = nullptr)
      : bytes_(bytes), tenant_(tenant), persistence_(persistence), checks_(checks) {}

  /// Of pages whose rows lie elsewhere. They have no checksums of arrays.
  Window(std::span<std::byte> bytes, const LentRows* lent_rows)
      : bytes_(bytes), lent_rows_(lent_rows) {}

  /// `bytes` bytes from `address`, or an empty span if any lies outside.
  [[nodiscard]] std::span<std::byte> at(std::uint64_t address, std::uint64_t bytes) const {
    if (address > bytes_.size() || bytes > bytes_.size() - address) return {};
    return bytes_.subspan(address, bytes);
  }

  /// Whether the whole range lies inside; an empty one always does.
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return bytes == 0 || !at(address, bytes).empty();
  }

  /// Tenant that the queue belongs to.
  [[nodiscard]] std::uint16_t tenant() const { return tenant_; }

  /// Of the memory; not for a window made from nothing.
  [[nodiscard]] Persistence& persistence() const { return *persistence_; }

  /// Of the device whose memory it is, or null.
  [[nodiscard]] PageChecks* checks() const { return checks_; }

  /// Where pages' rows are, if not in the pages; else null.
  [[nodiscard]] const LentRows* lent_rows() const { return lent_rows_; }

 private:
  std::span<std::byte> bytes_;
  std::uint16_t tenant_ = 0;
  Persistence* persistence_ = nullptr;
  PageChecks* checks_ = nullptr;
  const LentRows* lent_rows_ = nullptr;
};

}  // namespace nearkv
