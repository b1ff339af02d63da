#include <cmath>
#include <cstring>
#include <utility>

#include "nearkv/retention.hpp"
#include "policy/retention/observation.hpp"
#include "policy/retention/saved_numbers.hpp"

namespace nearkv {
namespace {

constexpr std::uint32_t kFormat = 3;

/// What comes before a saved policy's numbers.
struct SavedHeader {
  std::uint32_t format = kFormat;
  std::uint32_t tokens = 0;
  std::uint32_t columns = 0;
  std::uint32_t sketches = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t parameters = 0;
  std::uint32_t crc = 0;  ///< Of all else, this being 0.
};
static_assert(sizeof(SavedHeader) == 28);

bool is_share(float mass) { return mass >= 0 && mass <= 1; }

bool fits(const Observation& seen, std::uint32_t tokens) {
  const std::size_t room = std::size_t{seen.rows} * seen.stride;
  if (seen.position >= tokens || seen.counts.size() != seen.rows || seen.ids.size() != room ||
      seen.mass.size() != room) {
    return false;
  }
  for (const std::uint32_t count : seen.counts) {
    if (count > seen.stride) return false;
  }
  bool good = true;
  each_named(seen,
             [&](std::uint32_t id, float mass) { good &= id <= seen.position && is_share(mass); });
  return good;
}

}  // namespace

RetentionPolicy::RetentionPolicy(std::string name, std::vector<float> parameters, Needs needs,
                                 std::size_t columns)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      needs_(needs),
      columns_(columns) {}

void RetentionPolicy::on_append(std::uint32_t /*first*/) {}

void RetentionPolicy::on_cut() {}

Status RetentionPolicy::append(std::uint32_t count, std::span<const std::uint64_t> sketches) {
  if (needs_.key_sketches && sketches.empty() && count > 0) return Status::kUnsupported;
  if (!sketches.empty() && sketches.size() != count) return Status::kBadArgument;
  if (count > UINT32_MAX - tokens_) return Status::kBadArgument;
  const std::uint32_t first = tokens_;
  for (auto& column : columns_) column.resize(first + count);
  if (needs_.key_sketches) sketches_.insert(sketches_.end(), sketches.begin(), sketches.end());
  tokens_ += count;
  on_append(first);
  return Status::kOk;
}

Status RetentionPolicy::observe(const Observation& seen) {
  if (!fits(seen, tokens_)) return Status::kBadArgument;
  on_observe(seen);
  return Status::kOk;
}

void RetentionPolicy::worth(std::span<float> worth) const { on_worth(worth.first(tokens_)); }

std::unique_ptr<RetentionPolicy> RetentionPolicy::fork(std::uint32_t count) const {
  if (count > tokens_) return nullptr;
  std::unique_ptr<RetentionPolicy> child = empty();
  child->tokens_ = count;
  child->columns_ = columns_;
  for (auto& column : child->columns_) column.resize(count);
  child->sketches_ = sketches_;
  if (needs_.key_sketches) child->sketches_.resize(count);
  if (count < tokens_) child->on_cut();
  return child;
}

std::vector<std::byte> RetentionPolicy::save() const {
  SavedHeader header;
  header.tokens = tokens_;
  header.columns = static_cast<std::uint32_t>(columns_.size());
  header.sketches = static_cast<std::uint32_t>(sketches_.size());
  header.name_bytes = static_cast<std::uint32_t>(name_.size());
  header.parameters = static_cast<std::uint32_t>(parameters_.size());
  std::vector<std::byte> saved(sizeof(header) + name_.size() + parameters_.size() * sizeof(float) +
                               tokens_ * state_bytes_per_token());
  std::span<std::byte> room = saved;
  put(std::span<const SavedHeader>(&header, 1), &room);
  put(std::span<const char>(name_), &room);
  put(std::span<const float>(parameters_), &room);
  for (const auto& column : columns_) put(std::span<const float>(column), &room);
  put(std::span<const std::uint64_t>(sketches_), &room);
  header.crc = saved_checksum(header, std::span(saved).subspan(sizeof(header)));
  std::memcpy(saved.data(), &header, sizeof(header));
  return saved;
}

Status RetentionPolicy::restore(std::span<const std::byte> saved) {
  SavedHeader header;
  if (saved.size() < sizeof(header)) return Status::kBadArgument;
  take(&saved, std::span(&header, 1));
  const bool is_alike = header.format == kFormat && header.columns == columns_.size() &&
                        header.name_bytes == name_.size() &&
                        header.parameters == parameters_.size() &&
                        header.sketches == (needs_.key_sketches ? header.tokens : 0) &&
                        saved.size() == name_.size() + parameters_.size() * sizeof(float) +
                                            header.tokens * state_bytes_per_token();
  if (!is_alike || header.crc != saved_checksum(header, saved) ||
      std::memcmp(saved.data(), name_.data(), name_.size()) != 0) {
    return Status::kBadArgument;
  }
  saved = saved.subspan(name_.size());
  std::vector<float> parameters(parameters_.size());
  take(&saved, std::span(parameters));
  if (parameters != parameters_) return Status::kBadArgument;
  for (auto& column : columns_) {
    column.resize(header.tokens);
    take(&saved, std::span(column));
  }
  sketches_.resize(header.sketches);
  take(&saved, std::span(sketches_));
  tokens_ = header.tokens;
  return Status::kOk;
}

std::size_t RetentionPolicy::state_bytes_per_token() const {
  return columns_.size() * sizeof(float) + (needs_.key_sketches ? sizeof(std::uint64_t) : 0);
}

}  // namespace nearkv
