#include "support/page_source.hpp"

#include <random>

namespace nearkv::test {
namespace {

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::uint32_t PageSource::key_stride() const {
  return nkv_element_bytes(dtype) * head_dim +
         (key_scales ? static_cast<std::uint32_t>(sizeof(float)) : 0U);
}

std::uint32_t PageSource::value_stride() const { return nkv_element_bytes(dtype) * value_dim; }

struct nkv_page_layout PageSource::layout() const {
  nkv_page_shape shape{};
  shape.k_form = k_form;
  shape.v_form = v_form;
  shape.dtype = dtype;
  shape.flags = key_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0;
  shape.head_dim = head_dim;
  shape.value_dim = value_dim;
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  return layout;
}

PageSource page_source(const KvData& data, std::uint8_t k_form, std::uint8_t v_form) {
  PageSource source;
  source.k_form = k_form;
  source.v_form = v_form;
  source.head_dim = static_cast<std::uint16_t>(data.head_dim);
  source.value_dim = static_cast<std::uint16_t>(data.value_dim);
  source.keys = bytes_of(data.keys);
  source.values = bytes_of(data.values);
  return source;
}

PageSource random_source(std::uint8_t dtype, std::uint16_t head_dim, std::uint16_t value_dim,
                         bool key_scales, std::uint32_t tokens, std::uint32_t seed) {
  std::mt19937 random(seed);
  PageSource source;
  source.dtype = dtype;
  source.head_dim = head_dim;
  source.value_dim = value_dim;
  source.key_scales = key_scales;
  source.keys.resize(std::size_t{tokens} * source.key_stride());
  source.values.resize(std::size_t{tokens} * source.value_stride());
  for (std::byte& byte : source.keys) byte = static_cast<std::byte>(random());
  for (std::byte& byte : source.values) byte = static_cast<std::byte>(random());
  return source;
}

StoredList append(BenchDevice* bench, const PageSource& source, std::uint16_t generation) {
  StoredList list;
  list.tokens = source.tokens();
  list.head_dim = source.head_dim;
  list.value_dim = source.value_dim;
  list.page_bytes = source.layout().total_bytes;
  std::vector<nkv_page_entry> entries(list.pages());
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(bench->allocate(list.page_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = generation;
  }
  list.page_list = bench->store(std::span<const nkv_page_entry>(entries));
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.flags = source.key_scales ? NKV_APPEND_FLAG_KEY_SCALES : 0;
  command.head_dim = source.head_dim;
  command.value_dim = source.value_dim;
  command.tokens = source.tokens();
  command.first_token = 640;
  command.keys = bench->store(std::span<const std::byte>(source.keys));
  command.values = source.v_form == NKV_ROW_FORM_NONE
                       ? 0
                       : bench->store(std::span<const std::byte>(source.values));
  command.page_list = list.page_list;
  command.sequence_id = 77;
  command.layer = 5;
  command.kv_head = 6;
  command.key_stride = source.key_stride();
  command.value_stride = source.value_stride();
  command.dtype = source.dtype;
  command.k_form = source.k_form;
  command.v_form = source.v_form;
  list.completion = bench->run(command);
  return list;
}

std::span<std::byte> page_at(BenchDevice* bench, std::uint64_t page_list, std::size_t index,
                             std::uint32_t page_bytes) {
  const std::uint32_t page = bench->at<nkv_page_entry>(page_list)[index].page;
  return bench->window().subspan(std::uint64_t{page} * NKV_PAGE_GRAIN_BYTES, page_bytes);
}

}  // namespace nearkv::test
