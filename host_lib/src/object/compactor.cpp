#include "object/compactor.hpp"

#include "edge.hpp"

namespace nearkv {
namespace {

// Once at work it goes on to here, so that the next object does not call it again.
constexpr double kEnough = 0.75;

// Of the share that may be lost: so much has to come or go before it is worth a look.
constexpr double kChurn = 0.125;

}  // namespace

Compactor::Compactor(Objects* objects, double above) : objects_(objects), above_(above) {
  objects_->on_churn(above * kChurn, [this] {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    wake_.notify_one();
  });
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void Compactor::work(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return woken_; })) return;
      woken_ = false;
    }
    if (objects_->sparse_bytes(above_) == 0) continue;
    bool gained = true;
    while (gained && !stop.stop_requested()) {
      gained = false;
      const Status status = at_edge([&] {
        std::uint64_t moved_bytes = 0;
        const std::uint64_t sparse_bytes = objects_->sparse_bytes(above_ * kEnough);
        gained = sparse_bytes != 0 && objects_->defragment(sparse_bytes, &moved_bytes, stop) != 0;
        return Status::kOk;
      });
      if (status != Status::kOk) break;  // Memory is short; it looks again later.
    }
  }
}

}  // namespace nearkv
