// Memory that a client shares with its daemon.
#include "daemon/client/daemon_client.hpp"

namespace nearkv {

Status DaemonClient::allocate(std::size_t bytes, std::span<std::byte>* memory) {
  const std::scoped_lock lock(mutex_);
  return memory_->allocate(bytes, memory);
}

Status DaemonClient::release(std::span<std::byte> memory) {
  const std::scoped_lock lock(mutex_);
  return memory_->release(memory);
}

template <typename Exchange>
Status DaemonClient::exchange(Exchange exchange) {
  Lock lock(mutex_);
  Status status = ensure_connected(lock);
  if (status != Status::kOk) return status;
  take_completions();
  if (!expects_answers_) return Status::kTimeout;
  status = exchange(connection_.get());
  if (status == Status::kTimeout) {
    // The connection stays: what is in flight may still touch its memory.
    expects_answers_ = false;
  } else if (status == Status::kNoDaemon) {
    lose_connection();
    changed_.notify_all();
  }
  return status;
}

Status DaemonClient::register_memory(std::span<std::byte> mapping, int memfd,
                                     std::uint64_t offset) {
  return exchange(
      [&](Connection* connection) { return memory_->add(connection, memfd, offset, mapping); });
}

Status DaemonClient::unregister_memory(std::span<std::byte> mapping) {
  return exchange([&](Connection* connection) { return memory_->remove(connection, mapping); });
}

}  // namespace nearkv
