// Who may read what is sealed: a key for each tenant, and sealers that work with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "media/sealer.hpp"

namespace nearkv {

/// Thread safety: all calls.
class Seals {
 public:
  /// A sealer for as long as somebody works with it.
  class Loan {
   public:
    Loan() = default;
    Loan(Seals* owner, std::uint16_t tenant, std::unique_ptr<Sealer> sealer)
        : owner_(owner), tenant_(tenant), sealer_(std::move(sealer)) {}
    Loan(Loan&&) = default;
    Loan& operator=(Loan&&) = default;
    ~Loan() {
      if (sealer_ != nullptr) owner_->give_back(tenant_, std::move(sealer_));
    }

    [[nodiscard]] Sealer* get() const { return sealer_.get(); }

   private:
    Seals* owner_ = nullptr;
    std::uint16_t tenant_ = 0;
    std::unique_ptr<Sealer> sealer_;
  };

  /// `master`: the key that those of tenants are derived from.
  explicit Seals(SecretKey master) : master_(std::move(master)) {}

  /// kOutOfMemory, kUnsupported.
  Status lend(std::uint16_t tenant, Loan* loan);

 private:
  void give_back(std::uint16_t tenant, std::unique_ptr<Sealer> sealer);

  SecretKey master_;
  std::mutex mutex_;
  std::map<std::uint16_t, std::vector<std::unique_ptr<Sealer>>> idle_;
};

}  // namespace nearkv
