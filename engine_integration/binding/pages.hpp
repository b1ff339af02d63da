// Pages of an engine's cache: registered once, then named by the numbers of their blocks.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nearkv::python {

/// Memory in which each block has one page in every layer. The arrays stay alive with it.
///
/// Thread safety: const calls. Making and destroying one needs the GIL.
class Pages {
 public:
  /// `layers`: writable arrays in this host, of as many blocks each along their first axis; all of
  /// a block is contiguous, other strides are free. TypeError, ValueError for what is not.
  explicit Pages(nanobind::handle layers);

  [[nodiscard]] std::size_t layers() const { return layers_.size(); }
  [[nodiscard]] std::size_t blocks() const { return blocks_; }

  /// Of one block, in all layers.
  [[nodiscard]] std::size_t block_bytes() const;

  /// One page; both numbers are in range.
  [[nodiscard]] std::span<std::byte> page(std::size_t layer, std::size_t block) const {
    const Layer& place = layers_[layer];
    return {place.first + block * place.stride, place.bytes};
  }

 private:
  struct Layer {
    std::byte* first;
    std::size_t stride;
    std::size_t bytes;
  };

  void add(const nanobind::ndarray<nanobind::device::cpu>& layer);

  std::vector<nanobind::ndarray<nanobind::device::cpu>> lent_;
  std::vector<Layer> layers_;
  std::size_t blocks_ = 0;
};

/// The pages of some blocks, in all layers or in some that follow each other. It does not keep its
/// Pages, which Python does.
class PageList {
 public:
  /// `blocks`: a sequence or an array of integers. ValueError for blocks or layers that there are
  /// not; `layer_count` 0: all from the first on.
  PageList(const Pages* pages, nanobind::handle blocks, std::size_t first_layer,
           std::size_t layer_count);

  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t layers() const { return layer_count_; }

  /// Adds each block's pages, block by block.
  template <typename Byte>
  void append_to(std::vector<std::span<Byte>>* segments) const {
    segments->reserve(segments->size() + blocks_.size() * layer_count_);
    for (const std::uint64_t block : blocks_) {
      for (std::size_t i = 0; i < layer_count_; ++i) {
        segments->push_back(pages_->page(first_layer_ + i, block));
      }
    }
  }

 private:
  void add(std::int64_t block);

  const Pages* pages_;
  std::size_t first_layer_;
  std::size_t layer_count_;
  std::vector<std::uint64_t> blocks_;
};

}  // namespace nearkv::python
