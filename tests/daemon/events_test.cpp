// What clients are told of changes, and what they are not told.
#include <algorithm>

#include "server_fixture.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

class EventsTest : public testing::Test {
 protected:
  void SetUp() override {
    ServerConfig config = small_config(folder_);
    config.tenants = {own_tenant(1, kMayRead | kMayWrite | kMayErase),
                      own_tenant(2, kMayRead | kMayWrite | kMayErase)};
    server_ = start_server(config);
    store_ = connect();
    own_ = open(store_.get(), 1);
  }

  [[nodiscard]] std::unique_ptr<ObjectStore> connect() const {
    return connect_to(folder_.file("socket"), 16 << 20);
  }

  static std::uint32_t open(ObjectStore* store, std::uint16_t tenant,
                            const std::string& model = "model") {
    std::uint32_t space = 0;
    EXPECT_EQ(store->open_namespace(namespace_of(tenant, model), &space), Status::kOk);
    return space;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t own_ = 0;
};

TEST_F(EventsTest, AClientSeesOnlyNamespacesThatItHasOpened) {
  const auto other = connect();
  const std::uint32_t others = open(other.get(), 2);
  const std::uint32_t secret = open(other.get(), 1, "another model");
  ASSERT_EQ(store_->watch(100), Status::kOk);
  ASSERT_EQ(other->watch(100), Status::kOk);
  ASSERT_EQ(set(store_.get(), own_, key_of(1), contents(1, 5000)), Status::kOk);
  ASSERT_EQ(set(other.get(), others, key_of(2), contents(2, 6000)), Status::kOk);
  ASSERT_EQ(set(other.get(), secret, key_of(3), contents(3, 7000)), Status::kOk);
  std::uint64_t missed = 99;
  const std::vector<StoreEvent> seen = store_->take_events(&missed);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].namespace_number, own_);
  EXPECT_EQ(seen[0].key, key_of(1));
  EXPECT_EQ(seen[0].bytes, 5000U);
  EXPECT_EQ(missed, 0U);
  EXPECT_EQ(other->take_events(&missed).size(), 2U);
  EXPECT_EQ(store_->take_events(&missed).size(), 0U) << "each change is told once";
}

TEST_F(EventsTest, ANamespaceOpenedLaterIsSeenFromThenOn) {
  ASSERT_EQ(store_->watch(100), Status::kOk);
  const std::uint32_t later = open(store_.get(), 2);
  ASSERT_EQ(set(store_.get(), later, key_of(1), contents(1, 5000)), Status::kOk);
  std::uint64_t missed = 99;
  EXPECT_EQ(store_->take_events(&missed).size(), 1U);
}

TEST_F(EventsTest, TheChangesOfOthersPushNoneOfOnesOwnOut) {
  const auto other = connect();
  const std::uint32_t others = open(other.get(), 2);
  ASSERT_EQ(store_->watch(10), Status::kOk);
  ASSERT_EQ(set(store_.get(), own_, key_of(1), contents(1, 100)), Status::kOk);
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(set(other.get(), others, key_of(i), contents(i, 100)), Status::kOk);
  }
  std::uint64_t missed = 99;
  EXPECT_EQ(store_->take_events(&missed).size(), 1U);
  EXPECT_EQ(missed, 0U) << "how much others do is not told either";
}

TEST_F(EventsTest, OnlyTheLastAreKeptAndTheOthersAreCounted) {
  ASSERT_EQ(store_->watch(10), Status::kOk);
  for (std::uint64_t i = 0; i < 35; ++i) {
    ASSERT_EQ(set(store_.get(), own_, key_of(i), contents(i, 100)), Status::kOk);
  }
  std::uint64_t missed = 0;
  const std::vector<StoreEvent> events = store_->take_events(&missed);
  ASSERT_EQ(events.size(), 10U);
  EXPECT_EQ(missed, 25U);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(events[i].key, key_of(25 + i));
}

TEST_F(EventsTest, MoreThanARequestHoldsComesAllTheSame) {
  ASSERT_EQ(store_->watch(5000), Status::kOk);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(set(store_.get(), own_, key_of(i), contents(i, 100)), Status::kOk);
    ASSERT_EQ(erase(store_.get(), own_, key_of(i)), Status::kOk);
  }
  std::uint64_t missed = 0;
  const std::vector<StoreEvent> events = store_->take_events(&missed);
  EXPECT_EQ(events.size(), 5000U);
  EXPECT_EQ(missed, 1000U);
  EXPECT_EQ(events.back().kind, StoreEvent::Kind::kErased);
}

TEST_F(EventsTest, WhoStopsWatchingOrDiesIsToldNothingMore) {
  auto other = connect();
  open(other.get(), 1);
  ASSERT_EQ(store_->watch(100), Status::kOk);
  ASSERT_EQ(other->watch(100), Status::kOk);
  ASSERT_EQ(store_->watch(0), Status::kOk);
  ASSERT_EQ(set(store_.get(), own_, key_of(1), contents(1, 100)), Status::kOk);
  std::uint64_t missed = 99;
  EXPECT_TRUE(store_->take_events(&missed).empty());
  EXPECT_EQ(other->take_events(&missed).size(), 1U);
  other.reset();
  ASSERT_EQ(set(store_.get(), own_, key_of(2), contents(1, 100)), Status::kOk);
  ASSERT_EQ(store_->watch(100), Status::kOk);
  EXPECT_TRUE(store_->take_events(&missed).empty()) << "what came before";
}

TEST(AdministratorsEventsTest, AreThoseOfAllNamespaces) {
  const TemporaryFolder folder;
  ServerConfig config = small_config(folder);
  config.tenants = {own_tenant(1)};
  const auto server = start_server(config);
  const auto admin = connect_to(config.socket.path, 16 << 20);
  const auto client = connect_to(config.socket.path, 16 << 20);
  std::uint32_t space = 0;
  ASSERT_EQ(client->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(admin->watch(10), Status::kOk);
  ASSERT_EQ(set(client.get(), space, key_of(1), contents(1, 100)), Status::kOk);
  std::uint64_t missed = 0;
  EXPECT_EQ(admin->take_events(&missed).size(), 1U);
}

TEST(RestartedEventsTest, AreWatchedAgainAndWhatWasLostIsSaid) {
  const TemporaryFolder folder;
  ServerConfig config = small_config(folder);
  auto server = start_server(config);
  const auto store = connect_to(config.socket.path, 16 << 20);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(store->watch(10), Status::kOk);
  server.reset();
  server = start_server(config);
  // What was sent just when the other ended is aborted, and may be sent again.
  ASSERT_TRUE(eventually(
      [&] { return set(store.get(), space, key_of(1), contents(1, 100)) == Status::kOk; }));
  std::uint64_t missed = 0;
  EXPECT_EQ(store->take_events(&missed).size(), 1U);
  EXPECT_GE(missed, 1U) << "who knows what the other daemon had seen";
  EXPECT_TRUE(store->take_events(&missed).empty());
  EXPECT_EQ(missed, 0U);
}

}  // namespace
}  // namespace nearkv::test
