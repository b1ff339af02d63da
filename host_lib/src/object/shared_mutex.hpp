// A shared mutex that readers cannot keep from writers.
#pragma once

#include <pthread.h>

namespace nearkv {

/// std::shared_mutex, but readers that come while a writer waits, wait too: with std's, two threads
/// that read in turns keep a writer out for milliseconds. A reader must therefore not lock it
/// twice.
class SharedMutex {
 public:
  SharedMutex() {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;
  ~SharedMutex() { pthread_rwlock_destroy(&lock_); }

  // Names that std::shared_lock and std::unique_lock ask for.
  void lock() { pthread_rwlock_wrlock(&lock_); }
  void unlock() { pthread_rwlock_unlock(&lock_); }
  void lock_shared() { pthread_rwlock_rdlock(&lock_); }
  void unlock_shared() { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_;
};

}  // namespace nearkv
