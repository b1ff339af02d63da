// Shared memory behind host caches that nothing keeps coherent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace nearkv::fabric {

inline constexpr std::uint64_t kLineBytes = 64;
inline constexpr std::uint64_t kWordBytes = 8;

/// The memory that all hosts map: what a line holds that no cache does.
class Fabric {
 public:
  explicit Fabric(std::uint64_t bytes) : bytes_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// A host's private write-back cache. Whatever a real one may do at any moment, this one does at
/// random moments, from its seed: it writes dirty lines back, whole or some words of them, evicts
/// clean ones, and fetches lines that nobody asked for. Only a fence is sure to finish what flush
/// and invalidate began. Words of 8 aligned bytes are never torn. Not thread safe.
class HostCache {
 public:
  HostCache(Fabric* fabric, std::uint64_t seed);

  /// At most 8 bytes that do not cross a word.
  void load(std::uint64_t at, std::span<std::byte> bytes);
  void store(std::uint64_t at, std::span<const std::byte> bytes);

  /// CLWB of all lines of the range, CLFLUSHOPT of them, MFENCE.
  void flush(std::uint64_t at, std::uint64_t bytes);
  void invalidate(std::uint64_t at, std::uint64_t bytes);
  void fence();

  /// What the cache does by itself; also done before every access.
  void stir();
  /// While calm, it does nothing by itself.
  void set_calm(bool is_calm) { is_calm_ = is_calm; }

  /// Power is lost: of the dirty lines, any may have been written back, as far as any word.
  void lose_power();

 private:
  enum class Pending : std::uint8_t { kNothing, kWriteBack, kDrop };
  struct Line {
    bool is_present = false;
    bool is_dirty = false;
    Pending pending = Pending::kNothing;
    std::array<std::byte, kLineBytes> bytes{};
  };

  [[nodiscard]] bool chance(std::uint32_t one_in);
  [[nodiscard]] std::uint64_t pick(std::uint64_t count);
  [[nodiscard]] Line& touch(std::uint64_t line);
  void fetch(std::uint64_t line);
  void write_back(std::uint64_t line);
  void write_some_words_back(std::uint64_t line);
  void drop(std::uint64_t line);
  void begin(std::uint64_t line, Pending what);
  void finish(std::uint64_t line);
  void disturb(std::uint64_t line);

  Fabric& fabric_;
  std::minstd_rand random_;
  bool is_calm_ = false;
  std::vector<Line> lines_;
  std::vector<std::uint64_t> pending_;      ///< Lines with something begun.
  std::array<std::uint64_t, 16> recent_{};  ///< Lines touched last: where trouble is likely.
  std::size_t next_recent_ = 0;
};

}  // namespace nearkv::fabric
