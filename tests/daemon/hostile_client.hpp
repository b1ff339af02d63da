// A client that writes what it likes to its window and its socket.
#pragma once

#include <cstring>
#include <vector>

#include "daemon/client/connection.hpp"
#include "server_fixture.hpp"

namespace nearkv::test {

/// Speaks the protocol by hand.
class HostileClient {
 public:
  explicit HostileClient(const std::string& socket, std::uint64_t data_bytes = 1 << 20) {
    std::string reason;
    EXPECT_EQ(Connection::open(socket, data_bytes, {}, &connection_, &reason), Status::kOk)
        << reason;
  }

  [[nodiscard]] Connection& connection() { return *connection_; }
  [[nodiscard]] const WindowView& window() { return connection_->window(); }

  /// The same window once more, elsewhere in this process: for threads that change it meanwhile,
  /// which is what is wanted and no race that tools should tell of.
  WindowView map_again() {
    const WindowLayout& layout = connection_->layout();
    EXPECT_EQ(SharedMemory::map(connection_->window_fd(), 0, layout.window_bytes, &again_),
              Status::kOk);
    return WindowView::make(again_.bytes(), layout);
  }

  /// Sends a submission as it is; the completion, or nothing if it was cut off.
  std::optional<nkv_daemon_completion> ask(const nkv_daemon_submission& submission) {
    connection_->submit(submission);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    if (connection_->await(connection_->head(), deadline) != Status::kOk) return std::nullopt;
    nkv_daemon_completion completion{};
    if (!connection_->take(&completion)) return std::nullopt;
    return completion;
  }

  /// Opens a namespace of tenant 1; its number.
  std::uint32_t open_namespace() {
    nkv_daemon_namespace name{};
    name.tenant = 1;
    std::memcpy(window().requests.data(), &name, sizeof(name));
    nkv_daemon_submission submission{};
    submission.operation = NKV_DAEMON_OPERATION_OPEN_NAMESPACE;
    submission.request_bytes = sizeof(name);
    const auto completion = ask(submission);
    EXPECT_TRUE(completion && completion->status == NKV_STATUS_OK);
    return completion ? static_cast<std::uint32_t>(completion->value) : 0;
  }

  /// Writes a request for one object of `bytes` in the data area, and its submission.
  nkv_daemon_submission one_object(std::uint8_t operation, std::uint32_t number,
                                   std::uint32_t bytes) {
    nkv_daemon_item item{};
    item.key_at = sizeof(item) + sizeof(nkv_daemon_segment);
    item.key_bytes = 8;
    item.segments = 1;
    nkv_daemon_segment segment{};
    segment.bytes = bytes;
    std::byte* const request = window().requests.data();
    std::memcpy(request, &item, sizeof(item));
    std::memcpy(request + sizeof(item), &segment, sizeof(segment));
    std::memcpy(request + item.key_at, "abcdefgh", 8);
    nkv_daemon_submission submission{};
    submission.operation = operation;
    submission.number = number;
    submission.items = 1;
    submission.request_bytes = item.key_at + item.key_bytes;
    submission.result_at = 4096;
    submission.result_bytes = 8;
    return submission;
  }

 private:
  std::unique_ptr<Connection> connection_;
  SharedMemory again_;
};

}  // namespace nearkv::test
