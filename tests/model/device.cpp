#include "device.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace nearkv::test {

namespace {

constexpr uint32_t kEntries = 16;
constexpr uint64_t kRingBytes = kEntries * sizeof(CommandBytes);
constexpr uint64_t kWindowBase = 4096;

QueueSetup setup_for(std::span<const std::byte> memory) {
  return {.number = 0,
          .entries = kEntries,
          .sq_base = 0,
          .cq_base = kRingBytes,
          .window_base = kWindowBase,
          .window_bytes = memory.size() - kWindowBase,
          .tenant = Device::kTenant};
}

const struct nkv_device_plugin* load() {
  void* const object = dlopen(NKV_MODEL_OBJECT, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) throw std::runtime_error(dlerror());
  using Entry = const struct nkv_device_plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(object, "nkv_plugin_entry"));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  return entry();
}

}  // namespace

const struct nkv_device_plugin& Card::table() {
  static const struct nkv_device_plugin* const table = load();
  return *table;
}

Card::Card(const std::string& arguments) : table_(table()) {
  std::array<char, 256> error{};
  device_ = table().open(arguments.c_str(), error.data(), error.size());
  if (device_ == nullptr) throw std::runtime_error(error.data());
  size_t bytes = 0;
  void* const place = table().memory(device_, &bytes);
  memory_ = std::span(static_cast<std::byte*>(place), bytes);
}

Card::~Card() { table_.close(device_); }

bool QueueDriver::enable() {
  const uint32_t n = setup_.number;
  card_->write_csr(NKV_REG_SQ_BASE(n), setup_.sq_base);
  card_->write_csr(NKV_REG_CQ_BASE(n), setup_.cq_base);
  card_->write_csr(NKV_REG_RING_ENTRIES(n), setup_.entries);
  card_->write_csr(NKV_REG_SQ_TAIL(n), 0);
  card_->write_csr(NKV_REG_CQ_HEAD(n), 0);
  card_->write_csr(NKV_REG_WINDOW_BASE(n), setup_.window_base);
  card_->write_csr(NKV_REG_WINDOW_BYTES(n), setup_.window_bytes);
  card_->write_csr(NKV_REG_TENANT(n), setup_.tenant);
  card_->write_csr(NKV_REG_QUEUE_CONTROL(n), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
  sq_tail_ = 0;
  cq_head_ = 0;
  return card_->read_csr(NKV_REG_QUEUE_STATUS(n)) == NKV_REG_QUEUE_STATUS_RUNNING_MASK;
}

void QueueDriver::place(const CommandBytes& command) {
  CommandBytes written = command;
  if ((sq_tail_ / setup_.entries & 1) == 0) {
    written[offsetof(nkv_append_command, flags)] |= std::byte{NKV_SLOT_FLAG_PHASE};
  }
  const uint64_t slot = sq_tail_++ % setup_.entries;
  std::memcpy(card_->memory().data() + setup_.sq_base + slot * written.size(), written.data(),
              written.size());
}

bool QueueDriver::poll(nkv_completion* completion) {
  const uint64_t slot = cq_head_ % setup_.entries;
  std::memcpy(completion, card_->memory().data() + setup_.cq_base + slot * sizeof(*completion),
              sizeof(*completion));
  const uint8_t phase = (cq_head_ / setup_.entries & 1) == 0 ? 1 : 0;
  if (completion->phase != phase) return false;
  ++cq_head_;
  return true;
}

nkv_completion QueueDriver::run(const CommandBytes& command) {
  place(command);
  ring();
  nkv_completion completion{};
  if (!poll(&completion)) throw std::runtime_error("the device posted no completion");
  release();
  return completion;
}

Device::Device(const std::string& arguments)
    : card_(arguments),
      queue_(card_, setup_for(card_.memory())),
      window_(card_.memory().subspan(kWindowBase)) {
  if (!queue_.enable()) throw std::runtime_error("the device refused the queue");
}

QueueDriver Device::other_tenant() {
  QueueSetup setup = setup_for(card_.memory());
  setup.number = 1;
  setup.sq_base = 2 * kRingBytes;
  setup.cq_base = 3 * kRingBytes;
  static_assert(4 * kRingBytes <= kWindowBase);
  setup.tenant = kTenant + 1;
  QueueDriver queue(card_, setup);
  if (!queue.enable()) throw std::runtime_error("the device refused the second queue");
  return queue;
}

uint64_t Device::allocate(uint64_t bytes) {
  constexpr uint64_t kGrain = NKV_PAGE_GRAIN_BYTES;
  const uint64_t address = next_;
  next_ += (bytes + kGrain - 1) / kGrain * kGrain;
  if (next_ > window_.size()) throw std::runtime_error("the test's device memory is full");
  std::memset(window_.subspan(address, next_ - address).data(), 0, next_ - address);
  return address;
}

}  // namespace nearkv::test
