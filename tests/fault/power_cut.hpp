// Memory that forgets, when the power fails, what was not written back and fenced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "persist/persistence.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

/// What a crash leaves.
struct Remains {
  std::vector<std::byte> memory;
  std::vector<std::byte> durable;  ///< If only the process died: what the power would leave of it.
};

/// What became of the crashes of a test.
struct Verdict {
  std::uint64_t images = 0;
  std::uint64_t failures = 0;
  std::string first_failure;

  void count(const std::optional<std::string>& failure) {
    ++images;
    if (failure && ++failures == 1) first_failure = *failure;
  }
};

/// Stands in for the caches in front of persistent memory. At any event (a write-back begun, a
/// fence) it can tell what a crash at that moment may leave: processors may write lines back at
/// will, in any order, so each word that differs is old or new, unless a fence has made it new.
///
/// A deliberate defect shows that tests notice it. Thread safety: one thread at a time; a fence
/// covers what its own thread wrote back.
class PowerCut final : public Persistence {
 public:
  enum class Defect : std::uint8_t { kNone, kForgetsWriteBack, kForgetsStreamed, kForgetsFence };

  explicit PowerCut(std::span<std::byte> memory, Defect defect = Defect::kNone)
      : PowerCut(memory, {memory.begin(), memory.end()}, defect) {}

  /// Over memory that a process which died has changed beyond what is durable.
  PowerCut(std::span<std::byte> memory, std::vector<std::byte> durable,
           Defect defect = Defect::kNone)
      : memory_(memory), durable_(std::move(durable)), defect_(defect) {}

  void write_back(std::span<const std::byte> bytes) noexcept override {
    if (defect_ != Defect::kForgetsWriteBack) add_pending(bytes);
    tell();
  }
  void streamed(std::span<const std::byte> bytes) noexcept override {
    if (defect_ != Defect::kForgetsStreamed) add_pending(bytes);
    tell();
  }
  void fence() noexcept override {
    if (defect_ != Defect::kForgetsFence) {
      std::set<std::size_t>& lines = pending_[std::this_thread::get_id()];
      for (const std::size_t line : lines) copy_line(line);
      lines.clear();
    }
    tell();
  }

  /// Called after each event.
  void on_event(std::function<void()> listener) { listener_ = std::move(listener); }

  enum class Image : std::uint8_t {
    kAllStored,   ///< The process died, the machine went on.
    kOnlyFenced,  ///< The power failed, and nothing got out that did not have to.
    kSome,        ///< The power failed, and a random part of the rest got out.
  };

  [[nodiscard]] std::vector<std::byte> image(Image kind, Random& random) const {
    if (kind == Image::kAllStored) return {memory_.begin(), memory_.end()};
    std::vector<std::byte> result = durable_;
    if (kind == Image::kOnlyFenced) return result;
    constexpr std::size_t kWord = 8;
    for (std::size_t at = 0; at < result.size(); at += kLine) {
      if (std::equal(&result[at], &result[at] + kLine, &memory_[at])) continue;
      for (std::size_t word = at; word < at + kLine; word += kWord) {
        if (random() % 2 == 0) std::copy_n(&memory_[word], kWord, &result[word]);
      }
    }
    return result;
  }

  [[nodiscard]] Remains remains(Image kind, Random& random) const {
    Remains result{image(kind, random), {}};
    if (kind == Image::kAllStored) result.durable = image(Image::kOnlyFenced, random);
    return result;
  }

 private:
  static constexpr std::size_t kLine = 64;

  void add_pending(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const auto first = static_cast<std::size_t>(bytes.data() - memory_.data());
    std::set<std::size_t>& lines = pending_[std::this_thread::get_id()];
    for (std::size_t line = first / kLine; line <= (first + bytes.size() - 1) / kLine; ++line) {
      lines.insert(line);
    }
  }
  void copy_line(std::size_t line) {
    std::copy_n(&memory_[line * kLine], kLine, &durable_[line * kLine]);
  }
  void tell() {
    if (listener_) listener_();
  }

  std::span<std::byte> memory_;
  std::vector<std::byte> durable_;
  std::map<std::thread::id, std::set<std::size_t>> pending_;  ///< Lines that a fence will cover.
  std::function<void()> listener_;
  Defect defect_;
};

}  // namespace nearkv::test
