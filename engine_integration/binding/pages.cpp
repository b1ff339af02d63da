#include "pages.hpp"

#include <string>

#include "lent_memory.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace nearkv::python {
namespace {

using Blocks = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;

/// Calls `use` with each number of an array of T; false if it is none.
template <typename T, typename Use>
bool each(const Blocks& blocks, Use use) {
  if (blocks.dtype() != nb::dtype<T>()) return false;
  const T* const first = static_cast<const T*>(blocks.data());
  for (std::size_t i = 0; i < blocks.shape(0); ++i) {
    use(first[static_cast<std::int64_t>(i) * blocks.stride(0)]);
  }
  return true;
}

}  // namespace

Pages::Pages(nb::handle layers) {
  for (const nb::handle layer : nb::iter(layers)) {
    nb::ndarray<nb::device::cpu> array;
    if (!nb::try_cast(layer, array, false)) {
      throw nb::type_error(("layer " + std::to_string(layers_.size()) +
                            " must be a writable array in this host's memory, not a " +
                            class_name(layer))
                               .c_str());
    }
    add(array);
  }
  if (layers_.empty()) throw nb::value_error("there must be a layer");
}

void Pages::add(const nb::ndarray<nb::device::cpu>& layer) {
  const std::string name = "layer " + std::to_string(layers_.size());
  const std::size_t bits = std::size_t{layer.dtype().bits} * layer.dtype().lanes;
  if (layer.ndim() == 0 || bits % 8 != 0) {
    throw nb::value_error((name + " must have blocks of whole bytes").c_str());
  }
  std::int64_t elements = 1;
  for (std::size_t axis = layer.ndim(); axis-- > 1;) {
    if (layer.shape(axis) > 1 && layer.stride(axis) != elements) {
      throw nb::value_error((name + ": a block must be contiguous").c_str());
    }
    elements *= static_cast<std::int64_t>(layer.shape(axis));
  }
  if (!layers_.empty() && layer.shape(0) != blocks_) {
    throw nb::value_error((name + " has " + std::to_string(layer.shape(0)) + " blocks, not " +
                           std::to_string(blocks_))
                              .c_str());
  }
  blocks_ = layer.shape(0);
  if (elements == 0 || (blocks_ > 1 && layer.stride(0) < elements)) {
    throw nb::value_error((name + ": blocks must have bytes of their own").c_str());
  }
  layers_.push_back({static_cast<std::byte*>(layer.data()),
                     static_cast<std::size_t>(layer.stride(0)) * bits / 8,
                     static_cast<std::size_t>(elements) * bits / 8});
  lent_.push_back(layer);
}

std::size_t Pages::block_bytes() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.bytes;
  return bytes;
}

PageList::PageList(const Pages* pages, nb::handle blocks, std::size_t first_layer,
                   std::size_t layer_count)
    : pages_(pages), first_layer_(first_layer), layer_count_(layer_count) {
  const std::size_t layers = pages->layers();
  if (first_layer >= layers || layer_count > layers - first_layer) {
    throw nb::value_error(("there are " + std::to_string(layers) + " layers").c_str());
  }
  if (layer_count == 0) layer_count_ = layers - first_layer;
  const auto take = [&](std::int64_t block) { add(block); };
  Blocks array;
  if (nb::ndarray_check(blocks)) {
    if (!nb::try_cast(blocks, array, false) ||
        !(each<std::int32_t>(array, take) || each<std::int64_t>(array, take))) {
      throw nb::type_error("numbers of blocks are int32 or int64, in one row in host memory");
    }
    return;
  }
  for (const nb::handle block : nb::iter(blocks)) {
    std::int64_t number = 0;
    if (!nb::try_cast(block, number, false)) {
      throw nb::type_error(("numbers of blocks are integers, not " + class_name(block)).c_str());
    }
    add(number);
  }
}

void PageList::add(std::int64_t block) {
  if (block < 0 || static_cast<std::uint64_t>(block) >= pages_->blocks()) {
    throw nb::value_error(("there is no block " + std::to_string(block) + ", but " +
                           std::to_string(pages_->blocks()) + " from 0 on")
                              .c_str());
  }
  blocks_.push_back(static_cast<std::uint64_t>(block));
}

void bind_pages(nb::module_& module) {
  nb::class_<PageList>(module, "PageList",
                       "Pages of some blocks, one after the other: memory of as many objects.")
      .def("__len__", &PageList::blocks);
  nb::class_<Pages>(
      module, "Pages",
      "Memory in which each block has one page in every layer: numbers of blocks name\n"
      "as many pages as a store is to read or fill.")
      .def(nb::init<nb::handle>(), "layers"_a,
           nb::sig("def __init__(self, layers: collections.abc.Iterable[typing.Any], /) -> None"),
           "Of writable arrays in this host (numpy, torch), with blocks along their first axis.\n"
           "They are kept alive.")
      .def_prop_ro("layers", &Pages::layers)
      .def_prop_ro("blocks", &Pages::blocks)
      .def_prop_ro("block_bytes", &Pages::block_bytes, "Of one block, in all layers.")
      .def(
          "of",
          [](const Pages& self, nb::handle blocks, std::size_t first_layer,
             std::size_t layer_count) { return PageList(&self, blocks, first_layer, layer_count); },
          "blocks"_a, "first_layer"_a = 0, "layer_count"_a = 0, nb::keep_alive<0, 1>(),
          nb::sig("def of(self, blocks: collections.abc.Iterable[int], first_layer: int = 0, "
                  "layer_count: int = 0) -> PageList"),
          "The pages of blocks, given as an array or a sequence; layer_count 0: of all layers "
          "from\n"
          "the first on. ValueError for a block or a layer that there is not.");
}

}  // namespace nearkv::python
