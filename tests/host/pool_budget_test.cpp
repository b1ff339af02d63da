// Random work on sequences that are kept within budgets: forks, leases, cooling, warming, queries,
// drops and restarts in any order, beside a plain map that is given the same calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "nearkv/retention.hpp"
#include "support/devices.hpp"
#include "support/offers.hpp"
#include "support/plain_pool.hpp"
#include "support/reference.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kCases = 5;
constexpr int kSteps = 120;
constexpr std::uint32_t kIds = 8;           // Numbered from 1.
constexpr std::uint32_t kMostPages = 6;     // Of a list.
constexpr std::uint32_t kSourcePages = 10;  // Of rows to append.
constexpr std::size_t kRows = 2;
constexpr std::uint16_t kBest = 40;
constexpr double kScale = 0.125;
constexpr double kOutputError = 1.0 / 128;  // Of the largest element: two results of 1/256 merged.
constexpr double kLseError = 4e-3;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

using Numbers = std::vector<std::uint32_t>;

/// One (layer, KV head) of a sequence.
struct Place {
  std::uint64_t sequence = 0;
  std::uint16_t layer = 0;
  std::uint16_t kv_head = 0;
};

Pool::Options options() {
  Pool::Options options = small_pool();
  options.staging_bytes = 256UL << 10;  // Cold pages are decoded in several runs.
  options.memory_bytes = 64UL << 20;
  return options;
}

/// The rows of those of a list's pages that a query sees, in order, and their numbers.
struct Visible {
  KvData rows;
  Numbers numbers;
};

/// Rows that INT8 gives back too, which devices offer that build no pages of a lossless codec.
LayerRows source_rows() {
  std::vector<KvData> heads = LayerRows::make_heads(kSourcePages * NKV_PAGE_TOKENS, 1);
  for (KvData& head : heads) round_for_int8(&head);
  return LayerRows(std::move(heads));
}

class World {
 public:
  enum class Restart : std::uint8_t { kPool, kPoolAndDevice };

  World(std::string uri, Restart restart)
      : uri_(std::move(uri)),
        restart_(restart),
        device_(open_or_throw(uri_)),
        pool_(create_or_throw(device_, options())) {
    codecs_ = lossless_codecs(*device_);
    codecs_.push_back(NKV_CODEC_INT8);
  }

  void act(Random& random) {
    const std::uint64_t id = pick(random, 1, kIds);
    switch (random() % 16) {
      case 0:
        return expect_same(pool_->create_sequence(id), plain_.create_sequence(id));
      case 1:
        return expect_same(pool_->drop(id), plain_.drop(id));
      case 2:
      case 3:
        return fork(random, id);
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return append(random, id);
      case 9: {
        const std::uint8_t codec = random_codec(random);
        return expect_same(pool_->transcode(id, codec), plain_.transcode(id, codec));
      }
      case 10:
      case 11:
        return transcode_some(random, random_place(random, id));
      case 12:
        return restart();
      default:
        return settle(random, random_place(random, id));
    }
  }

  /// Pages that were to be cooled, and that a fork shared.
  [[nodiscard]] std::size_t spared_pages() const { return spared_pages_; }

  /// All that can be asked of the pool is as the map has it.
  void look(Random& random) {
    EXPECT_EQ(pool_->usage().sequences, plain_.sequences());
    EXPECT_EQ(pool_->usage().pages, plain_.pages()) << "a page was lost or left behind";
    EXPECT_EQ(pool_->usage().damaged_pages, 0U);
    for (std::uint64_t id = 1; id <= kIds; ++id) {
      for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
        const auto head = static_cast<std::uint16_t>(random() % kHeads);
        look_at({id, layer, head});
        if (testing::Test::HasFailure()) return;
      }
    }
  }

 private:
  void expect_same(Status status, Status expected) {
    ASSERT_EQ(status, expected) << pool_->last_error();
  }

  std::uint8_t random_codec(Random& random) const {
    const std::size_t choice = random() % (codecs_.size() + 1);
    return choice == 0 ? std::uint8_t{NKV_CODEC_NONE} : codecs_[choice - 1];
  }

  static Place random_place(Random& random, std::uint64_t id) {
    return {id, static_cast<std::uint16_t>(random() % kLayers),
            static_cast<std::uint16_t>(random() % kHeads)};
  }

  [[nodiscard]] const PlainList* find(const Place& place) const {
    return plain_.find(place.sequence, place.layer, place.kv_head);
  }

  /// Of all pages that the parent's layers have, some, or now and then one more.
  void fork(Random& random, std::uint64_t parent) {
    std::uint64_t child = pick(random, 1, kIds);
    // Mostly one that there is not yet.
    for (std::uint32_t i = 0; i < kIds && random() % 8 != 0; ++i) {
      if (plain_.find(child, 0, 0) != nullptr) child = child % kIds + 1;
    }
    std::size_t most = kMostPages;
    for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
      const PlainList* const list = plain_.find(parent, layer, 0);
      if (list != nullptr) most = std::min(most, list->size());
    }
    const std::uint32_t tokens =
        NKV_PAGE_TOKENS * pick(random, 0, static_cast<std::uint32_t>(most) + (random() % 8 == 0));
    expect_same(pool_->fork(parent, child, tokens), plain_.fork(parent, child, tokens));
  }

  /// To all layers, as an engine does, or to one that is ahead of the others then.
  void append(Random& random, std::uint64_t id) {
    const std::uint32_t only = pick(random, 0, 4 * kLayers);
    for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
      if (only >= kLayers || only == layer) append_to(random, id, layer);
    }
  }

  void append_to(Random& random, std::uint64_t id, std::uint16_t layer) {
    const std::uint32_t first = pick(random, 0, kSourcePages - 1);
    const PlainList* const list = plain_.find(id, layer, 0);
    const std::size_t present = list == nullptr ? 0 : list->size();
    const std::size_t pages =
        std::min<std::size_t>({pick(random, 1, 3), kMostPages - present, kSourcePages - first});
    if (pages == 0) return;
    expect_same(test::append(pool_.get(), id, layer, source_, std::size_t{first} * NKV_PAGE_TOKENS,
                             pages * NKV_PAGE_TOKENS),
                plain_.append(id, layer, first, pages));
  }

  void transcode(const Place& place, const Numbers& pages, std::uint8_t codec) {
    if (const PlainList* const list = find(place); list != nullptr && codec != NKV_CODEC_NONE) {
      spared_pages_ += static_cast<std::size_t>(std::ranges::count_if(
          pages, [&](auto page) { return page < list->size() && (*list)[page].use_count() > 1; }));
    }
    std::uint32_t moved = 0;
    std::uint32_t expected = 0;
    expect_same(
        pool_->transcode(place.sequence, place.layer, place.kv_head, pages, codec, &moved),
        plain_.transcode(place.sequence, place.layer, place.kv_head, pages, codec, &expected));
    EXPECT_EQ(moved, expected);
  }

  void transcode_some(Random& random, const Place& place) {
    Numbers pages(pick(random, 0, kMostPages));
    const PlainList* const list = find(place);
    const std::size_t present = list == nullptr ? 0 : list->size();
    // Now and then the number behind the last page's, which there is not.
    for (std::uint32_t& page : pages) page = static_cast<std::uint32_t>(random() % (present + 1));
    if (random() % 4 != 0) std::erase(pages, present);
    transcode(place, pages, random_codec(random));
  }

  /// Keeps one list within a budget, whatever is leased included, as an engine would.
  void settle(Random& random, const Place& place) {
    const PlainList* const list = find(place);
    if (list == nullptr || list->empty()) return;
    const auto tokens = static_cast<std::uint32_t>(list->size() * NKV_PAGE_TOKENS);
    std::vector<float> worth(tokens);
    for (float& one : worth) one = static_cast<float>(random() % 1000);
    Numbers leased(random() % 3);
    for (std::uint32_t& token : leased) token = pick(random, 0, tokens - 1);
    RetentionBudget budget;
    budget.exact_tokens = pick(random, 0, tokens);
    budget.demoted_tokens = tokens;
    budget.sinks = static_cast<std::uint32_t>(random() % 2);
    budget.grain = NKV_PAGE_TOKENS;
    Retained retained;
    ASSERT_EQ(retain(worth, budget, leased, &retained), Status::kOk);
    std::array<Numbers, 2> pages;  // That go, that stay.
    for (std::uint32_t page = 0; page < list->size(); ++page) {
      const bool stays = retained.tokens[std::size_t{page} * NKV_PAGE_TOKENS] == Kept::kExact;
      pages[stays ? 1 : 0].push_back(page);
    }
    transcode(place, pages[0], codecs_[random() % codecs_.size()]);
    transcode(place, pages[1], NKV_CODEC_NONE);
    expect_within(place, budget, leased);
  }

  void expect_within(const Place& place, const RetentionBudget& budget, const Numbers& leased) {
    std::vector<std::uint8_t> codecs;
    ASSERT_EQ(pool_->codecs(place.sequence, place.layer, place.kv_head, &codecs), Status::kOk);
    std::set<std::uint32_t> held;  // By leases, and as sinks.
    if (budget.sinks != 0) held.insert(0);
    for (const std::uint32_t token : leased) held.insert(token / NKV_PAGE_TOKENS);
    for (const std::uint32_t page : held) EXPECT_EQ(codecs[page], NKV_CODEC_NONE) << page;
    const PlainList& list = *find(place);
    std::size_t own = 0;
    for (std::size_t page = 0; page < list.size(); ++page) {
      own += codecs[page] == NKV_CODEC_NONE && list[page].use_count() == 1 ? 1 : 0;
    }
    EXPECT_LE(own, std::max<std::size_t>(budget.exact_tokens / NKV_PAGE_TOKENS, held.size()));
  }

  void restart() {
    pool_.reset();
    if (restart_ == Restart::kPoolAndDevice) {
      device_.reset();
      device_ = open_or_throw(uri_);
    }
    std::string reason;
    ASSERT_EQ(Pool::open(device_, options(), &pool_, &reason), Status::kOk) << reason;
  }

  void look_at(const Place& place) {
    SCOPED_TRACE("sequence " + std::to_string(place.sequence) + ", layer " +
                 std::to_string(place.layer) + ", KV head " + std::to_string(place.kv_head));
    const PlainList* const list = find(place);
    std::vector<std::uint8_t> codecs;
    const Status status = pool_->codecs(place.sequence, place.layer, place.kv_head, &codecs);
    ASSERT_EQ(status, list == nullptr ? Status::kNotFound : Status::kOk);
    if (list == nullptr) return;
    std::vector<std::uint8_t> expected;
    for (const auto& page : *list) expected.push_back(page->codec);
    ASSERT_EQ(codecs, expected);
    for (std::uint32_t number = 0; number < list->size(); ++number) read(place, *list, number);
    for (const ColdPages cold : {ColdPages::kRefuse, ColdPages::kSkip, ColdPages::kDecode}) {
      SCOPED_TRACE("ColdPages " + std::to_string(static_cast<int>(cold)));
      attend(place, *list, cold);
      search(place, *list, cold);
    }
  }

  /// A warm page's rows to the bit; none of a cold one.
  void read(const Place& place, const PlainList& list, std::uint32_t number) {
    std::vector<std::uint16_t> keys(NKV_PAGE_TOKENS * kDim);
    std::vector<std::uint16_t> values(keys.size());
    const Status status = pool_->read(
        place.sequence, place.layer, place.kv_head, number * NKV_PAGE_TOKENS, NKV_PAGE_TOKENS,
        std::as_writable_bytes(std::span(keys)), std::as_writable_bytes(std::span(values)));
    const bool is_warm = list[number]->codec == NKV_CODEC_NONE;
    ASSERT_EQ(status, is_warm ? Status::kOk : Status::kColdPage) << pool_->last_error();
    if (!is_warm) return;
    const KvData& rows = source_.heads[place.kv_head];
    const std::size_t at = list[number]->source * NKV_PAGE_TOKENS * kDim;
    EXPECT_TRUE(std::equal(keys.begin(), keys.end(), &rows.keys[at])) << "page " << number;
    EXPECT_TRUE(std::equal(values.begin(), values.end(), &rows.values[at])) << "page " << number;
  }

  [[nodiscard]] Visible visible(const Place& place, const PlainList& list, ColdPages cold) const {
    const KvData& rows = source_.heads[place.kv_head];
    Visible visible;
    for (std::uint32_t number = 0; number < list.size(); ++number) {
      if (cold == ColdPages::kSkip && list[number]->codec != NKV_CODEC_NONE) continue;
      const auto first = static_cast<std::ptrdiff_t>(list[number]->source * NKV_PAGE_TOKENS * kDim);
      constexpr std::ptrdiff_t kCount = NKV_PAGE_TOKENS * kDim;
      visible.rows.keys.insert(visible.rows.keys.end(), rows.keys.begin() + first,
                               rows.keys.begin() + first + kCount);
      visible.rows.values.insert(visible.rows.values.end(), rows.values.begin() + first,
                                 rows.values.begin() + first + kCount);
      visible.numbers.push_back(number);
    }
    visible.rows.tokens = visible.numbers.size() * NKV_PAGE_TOKENS;
    visible.rows.head_dim = visible.rows.value_dim = kDim;
    return visible;
  }

  static Status expected_status(const PlainList& list, ColdPages cold) {
    const bool has_cold =
        std::ranges::any_of(list, [](const auto& page) { return page->codec != NKV_CODEC_NONE; });
    return has_cold && cold == ColdPages::kRefuse ? Status::kColdPage : Status::kOk;
  }

  [[nodiscard]] std::vector<std::uint16_t> queries(const Place& place) const {
    return make_queries(source_.heads[place.kv_head], kRows, 2.0, 17);
  }

  void attend(const Place& place, const PlainList& list, ColdPages cold) {
    const std::vector<std::uint16_t> query = queries(place);
    std::vector<float> output(kRows * kDim);
    std::vector<float> lse(kRows);
    AttendRequest request;
    request.sequence = place.sequence;
    request.layer = place.layer;
    request.kv_head = place.kv_head;
    request.rows = kRows;
    request.query = std::as_bytes(std::span(query));
    request.output = output;
    request.lse = lse;
    AttendOptions how;
    how.scale = static_cast<float>(kScale);
    how.cold = cold;
    ASSERT_EQ(pool_->attend(std::span(&request, 1), how), expected_status(list, cold))
        << pool_->last_error();
    if (expected_status(list, cold) != Status::kOk) return;
    const Visible seen = visible(place, list, cold);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto out = std::span(output).subspan(row * kDim, kDim);
      if (seen.numbers.empty()) {
        EXPECT_EQ(lse[row], kNothing);
        EXPECT_EQ(std::ranges::count(out, 0.0F), kDim);
        continue;
      }
      AttentionOptions reference;
      reference.scale = kScale;
      reference.tokens = seen.rows.tokens;
      const Attention exact =
          reference_attention(seen.rows, std::span(query).subspan(row * kDim, kDim), reference);
      EXPECT_LT(max_norm_error(out, exact.output), kOutputError);
      EXPECT_NEAR(lse[row], exact.lse, kLseError);
    }
  }

  void search(const Place& place, const PlainList& list, ColdPages cold) {
    const std::vector<std::uint16_t> query = queries(place);
    Numbers ids(kRows * kBest);
    std::vector<float> scores(ids.size());
    Numbers counts(kRows);
    Pool::TopKRequest request;
    request.sequence = place.sequence;
    request.layer = place.layer;
    request.kv_head = place.kv_head;
    request.rows = kRows;
    request.top_k = kBest;
    request.mode = NKV_SELECT_FULL;
    request.scale = static_cast<float>(kScale);
    request.cold = cold;
    request.query = std::as_bytes(std::span(query));
    request.ids = ids;
    request.scores = scores;
    request.counts = counts;
    ASSERT_EQ(pool_->top_k(request), expected_status(list, cold)) << pool_->last_error();
    if (expected_status(list, cold) != Status::kOk) return;
    const Visible seen = visible(place, list, cold);
    for (std::size_t row = 0; row < kRows; ++row) {
      ASSERT_EQ(counts[row], std::min<std::size_t>(kBest, seen.rows.tokens));
      expect_best(seen, std::span(query).subspan(row * kDim, kDim),
                  std::span(ids).subspan(row * kBest, counts[row]),
                  std::span(scores).subspan(row * kBest, counts[row]));
    }
  }

  /// These are the best tokens by their scores in double precision, the best first.
  static void expect_best(const Visible& seen, std::span<const std::uint16_t> query,
                          std::span<const std::uint32_t> ids, std::span<const float> scores) {
    constexpr double kScoreError = 1e-3;
    std::map<std::uint32_t, double> exact;
    for (std::size_t token = 0; token < seen.rows.tokens; ++token) {
      double dot = 0;
      for (std::size_t c = 0; c < kDim; ++c) {
        dot += double{from_bf16(query[c])} * double{seen.rows.key(token, c)};
      }
      const std::uint32_t number = seen.numbers[token / NKV_PAGE_TOKENS];
      exact[number * NKV_PAGE_TOKENS + token % NKV_PAGE_TOKENS] = kScale * dot;
    }
    std::vector<double> ranked;
    for (const auto& [id, score] : exact) ranked.push_back(score);
    std::ranges::sort(ranked, std::greater{});
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size()) << "a token was found twice";
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(exact.contains(ids[i])) << "token " << ids[i] << " is not visible";
      EXPECT_NEAR(scores[i], exact.at(ids[i]), kScoreError) << "token " << ids[i];
      EXPECT_NEAR(scores[i], ranked[i], kScoreError) << "place " << i;
    }
  }

  const LayerRows source_ = source_rows();
  std::string uri_;
  Restart restart_;
  std::vector<std::uint8_t> codecs_;  // That the device offers and that give back all of source_.
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  PlainPool plain_;
  std::size_t spared_pages_ = 0;
};

void work(const std::string& uri, World::Restart restart) {
  std::size_t spared_pages = 0;
  for (std::uint64_t number = 0; number < kCases; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    World world(uri, restart);
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      world.act(random);
      if (step % 8 == 7) world.look(random);
      if (testing::Test::HasFailure()) return;
    }
    spared_pages += world.spared_pages();
  }
  EXPECT_GT(spared_pages, 0U) << "no page that a fork shares was to be cooled";
}

class PoolBudgetTest : public testing::TestWithParam<std::string> {};

TEST_P(PoolBudgetTest, IsAsAPlainMapWouldBe) { work(GetParam(), World::Restart::kPool); }

INSTANTIATE_TEST_SUITE_P(Devices, PoolBudgetTest, testing::ValuesIn(device_uris()), device_name);

TEST(PoolBudgetFileTest, IsAsAPlainMapWouldBeAlsoWhenItsProcessComesAndGoes) {
  const TemporaryFile file("pool_budget");
  work(file.uri("64MiB"), World::Restart::kPoolAndDevice);
}

}  // namespace
}  // namespace nearkv::test
