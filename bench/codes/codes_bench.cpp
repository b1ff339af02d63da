// Attention by codes beside dense attention, on one core: nanoseconds for each token and KV head.
//
//   nearkv_codes_bench [tokens] [device URI] [part of a name: only such]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "support/bench_device.hpp"
#include "support/elements.hpp"

namespace nearkv::test {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

struct HeadShape {
  std::uint16_t dim;
  std::uint8_t rows;
};

/// Keys and values that change with topics, as a text's do, beside channels that are large
/// throughout and a first token that all queries look at; queries that ask for a place of it. Their
/// logits spread by about 2.5 units, 1.5 of them within a topic.
class Text {
 public:
  Text(std::size_t tokens, const HeadShape& shape, std::uint64_t seed)
      : dim_(shape.dim), random_(seed), keys_(tokens * dim_), values_(tokens * dim_) {
    constexpr std::size_t kTopicTokens = 200;
    std::vector<double> offset(dim_);
    for (double& number : offset) number = random_() % 16 == 0 ? 4 * normal() : 0;
    std::vector<double> query(dim_);
    for (double& number : query) number = normal();
    std::vector<double> key_topic(dim_);
    std::vector<double> value_topic(dim_);
    for (std::size_t t = 0; t < tokens; ++t) {
      if (t % kTopicTokens == 0) {
        for (double& number : key_topic) number = normal();
        for (double& number : value_topic) number = normal();
      }
      // Some tokens answer the query by themselves.
      const double answer = t == 0 ? 0.8 : random_() % 1024 == 0 ? 0.5 : 0;
      for (std::size_t c = 0; c < dim_; ++c) {
        keys_[t * dim_ + c] =
            bits(offset[c] + 0.8 * key_topic[c] + 0.6 * normal() + answer * query[c]);
        values_[t * dim_ + c] = bits((t == 0 ? 0.1 : 1) * (0.7 * value_topic[c] + 0.7 * normal()));
      }
    }
    for (std::size_t row = 0; row < shape.rows; ++row) {
      for (std::size_t c = 0; c < dim_; ++c) {
        queries_.push_back(bits(2.2 * (0.9 * query[c] + 0.45 * normal())));
      }
    }
  }

  [[nodiscard]] std::span<const std::uint16_t> keys() const { return keys_; }
  [[nodiscard]] std::span<const std::uint16_t> values() const { return values_; }
  [[nodiscard]] std::span<const std::uint16_t> queries() const { return queries_; }

 private:
  double normal() { return normal_(random_); }
  static std::uint16_t bits(double number) {
    return static_cast<std::uint16_t>(encode(NKV_DTYPE_BF16, number));
  }

  std::size_t dim_;
  Random random_;
  std::normal_distribution<double> normal_;
  std::vector<std::uint16_t> keys_;
  std::vector<std::uint16_t> values_;
  std::vector<std::uint16_t> queries_;
};

nkv_attend_command store(BenchDevice* bench, const Text& text, std::size_t tokens,
                         const HeadShape& shape) {
  nkv_page_shape page{};
  page.k_form = page.v_form = NKV_ROW_FORM_RAW;
  page.dtype = NKV_DTYPE_BF16;
  page.flags = NKV_PAGE_FLAG_CODES;
  page.head_dim = page.value_dim = shape.dim;
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&page, &layout);
  std::vector<std::byte> list(tokens / NKV_PAGE_TOKENS * sizeof(nkv_page_entry) + shape.dim);
  auto* const entries = reinterpret_cast<nkv_page_entry*>(list.data());
  for (std::size_t i = 0; i < tokens / NKV_PAGE_TOKENS; ++i) {
    entries[i] = {};
    entries[i].page =
        static_cast<std::uint32_t>(bench->allocate(layout.total_bytes) / NKV_PAGE_GRAIN_BYTES);
    entries[i].generation = 1;
  }
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.flags = NKV_APPEND_FLAG_CODES;
  append.head_dim = append.value_dim = shape.dim;
  append.tokens = static_cast<std::uint32_t>(tokens);
  append.page_list = bench->store(std::span<const std::byte>(list));
  append.dtype = NKV_DTYPE_BF16;
  append.k_form = append.v_form = NKV_ROW_FORM_RAW;
  append.keys = bench->store(text.keys());
  append.values = bench->store(text.values());
  append.key_stride = append.value_stride = 2U * shape.dim;
  const nkv_completion done = bench->run(append);
  if (done.status != NKV_STATUS_OK) {
    std::fprintf(stderr, "append: %s\n", nkv_status_message(done.status));
    std::exit(1);
  }
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.head_dim = command.value_dim = shape.dim;
  command.tokens = append.tokens;
  command.page_list = append.page_list;
  command.scale = 1.0F / std::sqrt(static_cast<float>(shape.dim));
  command.group = shape.rows;
  command.query_dtype = NKV_DTYPE_BF16;
  command.query = bench->store(text.queries());
  command.result = bench->allocate(std::uint64_t{shape.rows} * shape.dim * 4 + 1024);
  return command;
}

/// Only what has this in its name is measured.
std::string wanted;  // NOLINT

void measure(BenchDevice* bench, const std::string& name, const nkv_attend_command& command,
             std::uint64_t dense_bursts) {
  if (name.find(wanted) == std::string::npos) return;
  nkv_completion done{};
  double best = 1e18;
  const auto start = Clock::now();
  for (int i = 0; i < 4000 && (i < 5 || Clock::now() - start <
                                            std::chrono::milliseconds(wanted.empty() ? 400 : 4000));
       ++i) {
    const auto before = Clock::now();
    done = bench->run(command);
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - before).count());
  }
  const std::uint64_t bursts = std::uint64_t{done.stream_bursts} + done.refine_bursts +
                               done.exact_bursts + done.value_bursts;
  std::printf("  %-16s %7.2f ns, bytes %.3f of dense, rounds %d%s%s\n", name.c_str(),
              best / command.tokens,
              static_cast<double>(bursts) / static_cast<double>(dense_bursts), done.rounds,
              (done.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0 ? ", dense" : "",
              done.status != NKV_STATUS_OK ? ", failed" : "");
}

void measure_all(const HeadShape& shape, std::size_t tokens, const std::string& uri) {
  BenchDevice bench(uri);
  const Text text(tokens, shape, 7);
  nkv_attend_command command = store(&bench, text, tokens, shape);
  std::printf("dim %u, %u rows, %zu tokens\n", shape.dim, shape.rows, tokens);
  command.mode = NKV_ATTEND_MODE_DENSE;
  const nkv_completion dense = bench.run(command);
  measure(&bench, "DENSE", command, dense.stream_bursts);
  command.mode = NKV_ATTEND_MODE_TAIL;
  measure(&bench, "TAIL 0", command, dense.stream_bursts);
  command.top_k = 64;
  measure(&bench, "TAIL 64", command, dense.stream_bursts);
  command.top_k = 0;
  command.mode = NKV_ATTEND_MODE_BOUNDED;
  for (const float error : {1.0F, .2F, .1F, .05F, .02F}) {
    command.error = error;
    measure(&bench, "BOUNDED " + std::to_string(error).substr(0, 4), command, dense.stream_bursts);
  }
}

}  // namespace
}  // namespace nearkv::test

int main(int argc, char** argv) {
  using Shape = nearkv::test::HeadShape;
  const std::size_t tokens = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 32768;
  const std::string uri = argc > 2 ? argv[2] : "cpu:?memory=512MiB&threads=1";
  if (argc > 3) nearkv::test::wanted = argv[3];
  for (const Shape shape : {Shape{64, 3}, Shape{128, 4}, Shape{64, 8}, Shape{128, 8}}) {
    nearkv::test::measure_all(shape, tokens, uri);
    if (argc > 4) break;
  }
}
