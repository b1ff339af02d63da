// Moves objects together while nobody is looking.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "object/objects.hpp"

namespace nearkv {

/// One thread that compacts when too much of the objects' slabs is lost, in steps of some slabs,
/// until enough of that is won back or nothing more can be. It looks after each stretch of room
/// given out or freed, not by any clock: where nothing comes or goes it sleeps.
class Compactor {
 public:
  /// `above`: the share of slabs that may be lost. `objects` tell it what comes and goes from now
  /// on, so that nobody may use them any more when it ends.
  Compactor(Objects* objects, double above);
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  /// Ends after the object that is being moved.
  ~Compactor() = default;

 private:
  void work(const std::stop_token& stop);

  Objects* objects_;
  double above_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool woken_ = true;  ///< What a restart finds may be sparse already.
  std::jthread thread_;
};

}  // namespace nearkv
