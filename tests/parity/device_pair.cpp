#include "device_pair.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace nearkv::test {
namespace {

std::string with_memory(const std::string& uri, const std::string& memory) {
  std::ostringstream changed;
  changed << uri.substr(0, uri.find('?')) << "?memory=" << memory;
  std::istringstream options(uri.find('?') == std::string::npos ? ""
                                                                : uri.substr(uri.find('?') + 1));
  for (std::string option; std::getline(options, option, '&');) {
    if (!option.starts_with("memory=")) changed << '&' << option;
  }
  return changed.str();
}

}  // namespace

std::vector<std::string> subject_uris() {
  std::vector<std::string> uris = device_uris();
  std::erase_if(uris, [](const std::string& uri) { return uri.starts_with("model:"); });
  return uris;
}

std::string describe(const nkv_completion& completion) {
  std::ostringstream text;
  text << nkv_status_message(completion.status) << " (" << int{completion.status} << "), detail "
       << completion.detail << ", count " << completion.count << ", bursts "
       << completion.stream_bursts << " " << completion.refine_bursts << " "
       << completion.exact_bursts << " " << completion.value_bursts << ", flags "
       << int{completion.flags} << ", rounds " << int{completion.rounds} << ", bound "
       << completion.bound;
  return text.str();
}

DevicePair::DevicePair(const std::string& subject, const std::string& memory)
    : subject_(with_memory(subject, memory)),
      model_("model:?memory=" + memory),
      limits_(subject_.device().read_csr(NKV_REG_LIMITS)) {}

bool DevicePair::is_offered(std::span<const std::byte> command, const Completions& done) {
  // A limit may be told where the model finds something else wrong.
  if (done.subject.status == done.model.status && done.subject.detail == done.model.detail) {
    return true;
  }
  if (done.subject.status == NKV_STATUS_BAD_OPCODE ||
      done.subject.status == NKV_STATUS_UNSUPPORTED) {
    return false;
  }
  // All commands have the fields that LIMITS bounds at the same places. COPY's and TRANSCODE's
  // counts pages; READ's tokens are those up to its last row.
  nkv_attend_command fields{};
  std::memcpy(&fields, command.data(), sizeof(fields));
  const auto limit = [this](unsigned shift, std::uint64_t mask) { return limits_ >> shift & mask; };
  const std::uint64_t dim = limit(NKV_REG_LIMITS_HEAD_DIM_SHIFT, 0xFFFF);
  const std::uint64_t group = limit(NKV_REG_LIMITS_GROUP_SHIFT, 0xFF);
  const std::uint64_t tokens = 1ULL << limit(NKV_REG_LIMITS_TOKENS_LOG2_SHIFT, 0xFF);
  if (done.subject.status != NKV_STATUS_BAD_FIELD) return true;
  switch (done.subject.detail) {
    case offsetof(nkv_attend_command, head_dim):
      return fields.head_dim <= dim;
    case offsetof(nkv_attend_command, value_dim):
      return fields.value_dim <= dim;
    case offsetof(nkv_attend_command, tokens): {
      const bool pages = fields.opcode == NKV_OPCODE_COPY || fields.opcode == NKV_OPCODE_TRANSCODE;
      return fields.tokens <= (pages ? tokens / NKV_PAGE_TOKENS : tokens);
    }
    case offsetof(nkv_read_command, count):
      return fields.opcode != NKV_OPCODE_READ ||
             std::uint64_t{fields.tokens} + fields.window <= tokens;
    case offsetof(nkv_attend_command, group):
      return fields.group <= group;
    default:
      return true;
  }
}

std::uint64_t DevicePair::allocate(std::uint64_t bytes) {
  subject_.allocate(bytes);
  return model_.allocate(bytes);
}

void DevicePair::write(std::uint64_t address, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, subject_.at<std::byte>(address));
  std::ranges::copy(bytes, model_.at<std::byte>(address));
}

void DevicePair::clear() {
  for (BenchDevice* const bench : {&subject_, &model_}) {
    std::ranges::fill(bench->allocated(), std::byte{0});
  }
  subject_.clear();
  model_.clear();
}

void DevicePair::expect_same_memory() {
  const std::span<std::byte> a = subject_.allocated();
  const std::span<std::byte> b = model_.allocated();
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  const auto differing = std::ranges::mismatch(a, b);
  const auto at = differing.in1 - a.begin();
  ADD_FAILURE() << "memory differs first at window offset " << at << ": "
                << std::to_integer<int>(*differing.in1) << ", model "
                << std::to_integer<int>(*differing.in2);
}

}  // namespace nearkv::test
