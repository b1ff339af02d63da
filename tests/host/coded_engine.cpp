#include "coded_engine.hpp"

#include <cmath>
#include <numbers>

#include "attend/dense.hpp"
#include "codes/attend_by_codes.hpp"
#include "page/elements.hpp"
#include "page/encode.hpp"
#include "round_up.hpp"
#include "support/elements.hpp"

namespace nearkv::test {
namespace {

/// One KV head's pages as a pool has them; the newest tokens in one without codes.
class HeadPages {
 public:
  HeadPages(const KvNumbers& rows, std::span<const std::int8_t> gains) : rows_(rows) {
    nkv_page_shape shape{};
    shape.dtype = NKV_DTYPE_BF16;
    shape.head_dim = static_cast<std::uint16_t>(rows.head_dim);
    shape.value_dim = static_cast<std::uint16_t>(rows.value_dim);
    shape.flags = NKV_PAGE_FLAG_CODES;
    nkv_page_layout layout{};
    nkv_lay_out_page(&shape, &layout);
    const std::size_t pages = (rows.tokens + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
    memory_.resize(pages * layout.total_bytes + NKV_PAGE_GRAIN_BYTES);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    const std::size_t begin = round_up(address, NKV_PAGE_GRAIN_BYTES) - address;
    const std::span all = std::span(memory_).subspan(begin, pages * layout.total_bytes);
    window_ = Window(all, 0, persistence_.get());
    entries_.resize(pages);
    std::vector<std::uint16_t> keys = bf16(rows.keys);
    std::vector<std::uint16_t> values = bf16(rows.values);
    keys.resize(pages * NKV_PAGE_TOKENS * rows.head_dim);
    values.resize(pages * NKV_PAGE_TOKENS * rows.value_dim);
    for (std::size_t page = 0; page < pages; ++page) {
      const std::size_t first = page * NKV_PAGE_TOKENS;
      if (first + NKV_PAGE_TOKENS > rows.tokens) shape.flags = 0;
      const auto rows_from = [&](const std::vector<std::uint16_t>& some, std::size_t dim) {
        return SourceRows{reinterpret_cast<const std::byte*>(some.data() + first * dim), 2 * dim};
      };
      const PageContents contents{rows_from(keys, rows.head_dim), rows_from(values, rows.value_dim),
                                  gains, sign_set_of(static_cast<std::uint32_t>(page), 0)};
      const std::span slot = all.subspan(page * layout.total_bytes, layout.total_bytes);
      entries_[page].page =
          static_cast<std::uint32_t>(page * layout.total_bytes / NKV_PAGE_GRAIN_BYTES);
      EXPECT_EQ(encode_page(shape, contents, {}, slot, &entries_[page]), Status::kOk);
      publish_page(slot, shape.flags, window_);
    }
  }

  /// As a device answers the query rows [group][head_dim] that see `tokens` tokens.
  AttendResult attend(std::span<const double> query, std::size_t tokens,
                      const BlockAttention& attention) {
    Workers workers({.threads = 1});
    const std::vector<std::uint16_t> bits = bf16(query);
    Query rows;
    EXPECT_TRUE(rows.load(std::as_bytes(std::span(bits)), query.size() / rows_.head_dim,
                          rows_.head_dim, NKV_DTYPE_BF16)
                    .ok());
    PageList list;
    const std::size_t pages = (tokens + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
    list.assign(window_, std::span(entries_).first(pages));
    const Visibility visibility{static_cast<std::uint32_t>(tokens), attention.window, 0};
    std::vector<DenseScratch> dense(1);
    CodeScratch codes;
    AttendSpec request;
    request.value_dim = rows_.value_dim;
    request.scale = attention.scale;
    request.top_k = attention.approximation.top_k;
    request.error = attention.approximation.error;
    AttendResult result;
    const AttendContext context{list, visibility, rows, &workers, &dense, true};
    EXPECT_TRUE(
        attend_by_mode(context, request, attention.approximation.mode, &codes, &result).ok());
    return result;
  }

 private:
  const KvNumbers& rows_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Persistence> persistence_ = Persistence::make(Durability::kNone);
  Window window_;
  std::vector<nkv_page_entry> entries_;
};

}  // namespace

std::vector<std::uint16_t> bf16(std::span<const double> numbers) {
  std::vector<std::uint16_t> bits;
  for (const double number : numbers) {
    bits.push_back(static_cast<std::uint16_t>(encode(NKV_DTYPE_BF16, number)));
  }
  return bits;
}

void expect_as_pages(const CodedEngine& coded, const EngineStep& step, std::size_t request,
                     std::size_t first_token, std::size_t queries, const BlockAttention& attention,
                     std::span<const std::int8_t> gains) {
  const BlockShape& shape = coded.engine.shape();
  const BlockEngine::Request& of = coded.engine.requests().at(request);
  const std::vector<std::int8_t> flat(shape.kv_heads * shape.dim);
  const std::span all = gains.empty() ? std::span<const std::int8_t>(flat) : gains;
  const std::vector<std::uint16_t> order = kernel_order(shape.dim);
  for (std::size_t head = 0; head < shape.kv_heads; ++head) {
    HeadPages pages(of.rows[head], all.subspan(head * shape.dim, shape.dim));
    for (std::size_t i = 0; i < queries; ++i) {
      const std::size_t token = first_token + i;
      const std::span one = step.query_of(token, head * shape.group);
      const std::span rows(one.data(), shape.group * shape.dim);
      const AttendResult wanted = pages.attend(rows, of.tokens - (queries - 1 - i), attention);
      for (std::size_t row = 0; row < shape.group; ++row) {
        SCOPED_TRACE("head " + std::to_string(head) + ", query " + std::to_string(i) + ", row " +
                     std::to_string(row));
        const std::vector<float> output = step.output_of(token, head * shape.group + row);
        for (std::size_t c = 0; c < shape.dim; ++c) {
          const float value = wanted.state.values(row)[order[c]] / wanted.state.sum[row];
          ASSERT_EQ(output[c], from_bf16(to_bf16(value))) << "channel " << c;
        }
        const float lse2 = wanted.state.maximum[row] + std::log2(wanted.state.sum[row]);
        EXPECT_EQ(step.lse_of(token, head * shape.group + row), lse2 * std::numbers::ln2_v<float>);
      }
    }
  }
}

}  // namespace nearkv::test
