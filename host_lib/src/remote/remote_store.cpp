#include "remote/remote_store.hpp"

#include <algorithm>
#include <utility>

#include "daemon/client/daemon_store.hpp"
#include "deadline.hpp"
#include "edge.hpp"
#include "object/process_bound_store.hpp"
#include "remote/bridge.hpp"

namespace nearkv {
namespace {

/// How a client comes by its connections, one after the other. Thread safety: one thread at a time,
/// which the client sees to.
class Dialer {
 public:
  Dialer(RemoteStoreOptions options, UcxContext context)
      : options_(std::move(options)), context_(std::move(context)) {}

  Status dial(PacketSocket* socket, std::string* reason) {
    if (Clock::now() < not_before_) {
      *reason = options_.address + ": did not answer a moment ago";
      return Status::kNoDaemon;
    }
    bridge_.reset();
    const Status status = Bridge::connect(context_, options_, &memory_, socket, &bridge_, reason);
    if (status != Status::kOk) not_before_ = deadline_after(options_.retry_after);
    return status;
  }

 private:
  using Clock = std::chrono::steady_clock;

  RemoteStoreOptions options_;
  UcxContext context_;
  std::shared_ptr<BridgeMemory> memory_;
  std::unique_ptr<Bridge> bridge_;
  Clock::time_point not_before_;
};

}  // namespace

Status connect_remote(const RemoteStoreOptions& options, std::unique_ptr<ObjectStore>* store,
                      std::string* reason) {
  return at_edge([&] {
    std::string ignored;
    std::string* const why = reason != nullptr ? reason : &ignored;
    UcxContext context;
    Status status = make_context(options.transports, &context, why);
    if (status != Status::kOk) return status;
    RemoteStoreOptions bounded = options;
    bounded.answer_time = std::min<std::chrono::milliseconds>(bounded.answer_time, kForever);
    auto dialer = std::make_shared<Dialer>(bounded, std::move(context));
    ObjectStore::ClientOptions client_options;
    client_options.window_bytes = options.window_bytes;
    client_options.patience = options.patience;
    // The bridge, which answers in any case, waits for that long itself.
    client_options.answer_timeout += bounded.answer_time;
    std::unique_ptr<DaemonClient> client;
    const auto dial = [dialer](PacketSocket* socket, std::string* of_dial) {
      return dialer->dial(socket, of_dial);
    };
    status = DaemonClient::connect({options.address, dial}, client_options, &client, why);
    if (status != Status::kOk) return status;
    *store = ProcessBoundStore::make(std::make_unique<DaemonStore>(std::move(client)));
    return status;
  });
}

}  // namespace nearkv
