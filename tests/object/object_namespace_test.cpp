// Names of namespaces and sizes of objects: how much there may be of both, and what makes room.
#include <algorithm>

#include "object/every_store.hpp"

namespace nearkv::test {
namespace {

class NamespaceTest : public EveryStoreTest {
 protected:
  void SetUp() override {
    max_namespaces_ = GetParam() == "daemon" ? 8 : 4;  // Of which each of two tenants has half.
    make("64MiB");
  }

  Status open(const std::string& model, std::uint32_t* number) {
    return store_->open_namespace(engine(model), number);
  }
};

INSTANTIATE_TEST_SUITE_P(In, NamespaceTest, store_places(), name_of);

TEST_P(NamespaceTest, NamesThatNobodyUsesAndThatHoldNothingMakeRoom) {
  for (int user = 0; user < 40; ++user) {
    std::uint32_t space = 0;
    ASSERT_EQ(open("user " + std::to_string(user), &space), Status::kOk) << user;
    EXPECT_FALSE(exists(store_.get(), space, key_of(1))) << "an object of another user";
    ASSERT_EQ(set(store_.get(), space, key_of(1), contents(1, 5000)), Status::kOk);
    ASSERT_EQ(erase(store_.get(), space, key_of(1)), Status::kOk);
    ASSERT_EQ(store_->close_namespace(space), Status::kOk);
  }
  EXPECT_EQ(store_->stats().namespaces, 4U);
  EXPECT_EQ(store_->stats().max_namespaces, max_namespaces_);
}

TEST_P(NamespaceTest, NamesThatAreOpenOrHoldObjectsStay) {
  std::uint32_t holding = 0;
  std::uint32_t empty = 0;
  std::uint32_t twice = 0;
  ASSERT_EQ(open("holding", &holding), Status::kOk);
  ASSERT_EQ(open("empty", &empty), Status::kOk);
  ASSERT_EQ(open("twice", &twice), Status::kOk);
  ASSERT_EQ(open("twice", &twice), Status::kOk);
  ASSERT_EQ(set(store_.get(), holding, key_of(1), contents(1, 5000)), Status::kOk);
  ASSERT_EQ(store_->close_namespace(holding), Status::kOk);
  ASSERT_EQ(store_->close_namespace(twice), Status::kOk);
  std::uint32_t another = 0;
  EXPECT_EQ(open("another", &another), Status::kNamespacesFull);
  ASSERT_EQ(open("holding", &holding), Status::kOk);
  EXPECT_TRUE(exists(store_.get(), holding, key_of(1)));
  ASSERT_EQ(store_->close_namespace(empty), Status::kOk);
  EXPECT_EQ(open("another", &another), Status::kOk);
  EXPECT_EQ(store_->close_namespace(empty), Status::kNotFound);
}

TEST_P(NamespaceTest, ANumberThatWasClosedIsNobodyElsesEver) {
  std::uint32_t old = 0;
  ASSERT_EQ(open("old", &old), Status::kOk);
  ASSERT_EQ(store_->close_namespace(old), Status::kOk);
  for (int user = 0; user < 3; ++user) {
    std::uint32_t space = 0;
    ASSERT_EQ(open(std::to_string(user), &space), Status::kOk);
    ASSERT_EQ(set(store_.get(), space, key_of(1), contents(1, 5000)), Status::kOk);
  }
  EXPECT_FALSE(exists(store_.get(), old, key_of(1)));
  EXPECT_NE(set(store_.get(), old, key_of(2), contents(2, 5000)), Status::kOk);
  Bytes found;
  EXPECT_NE(get(store_.get(), old, key_of(1), &found), Status::kOk);
}

TEST_P(NamespaceTest, LongNamesAreListedWhole) {
  Namespace name = engine(std::string(512, 'm') + "-of-a-deep-folder");
  std::uint32_t number = 0;
  ASSERT_EQ(store_->open_namespace(name, &number), Status::kOk);
  ASSERT_EQ(set(store_.get(), number, key_of(1), contents(1, 5000)), Status::kOk);
  const auto listed = [&] {
    const std::vector<NamespaceInfo> all = store_->namespaces();
    const auto found = std::ranges::find(all, number, &NamespaceInfo::number);
    return found != all.end() ? found->text : "";
  };
  EXPECT_EQ(listed(), name.model + " bf16 LBHNC rank 0 group 0");
  name.model += "2";
  std::uint32_t other = 0;
  EXPECT_EQ(store_->open_namespace(name, &other),
            max_namespaces_ == 4 ? Status::kNamespacesFull : Status::kOk)
      << "each takes three records";
  name.model = std::string(NKV_NAMESPACE_NAME_BYTES - 8, 'm');
  EXPECT_EQ(store_->open_namespace(name, &other), Status::kNameTooLong);
}

class LimitTest : public EveryStoreTest {};

INSTANTIATE_TEST_SUITE_P(In, LimitTest, store_places(), name_of);

TEST_P(LimitTest, ObjectsAboveSixtyFourMebibytesAreLikeOthers) {
  make("256MiB");
  const Bytes large = contents(7, 80 << 20);
  if (GetParam() == "daemon") {
    EXPECT_EQ(set(store_.get(), space_, key_of(7), large), Status::kWindowTooSmall);
    store_ = connect_to(daemon_->socket(), 1 << 30);
    ASSERT_EQ(store_->open_namespace(engine(), &space_), Status::kOk);
  }
  ASSERT_EQ(set(store_.get(), space_, key_of(7), large), Status::kOk);
  Bytes found;
  ASSERT_EQ(get(store_.get(), space_, key_of(7), &found, large.size()), Status::kOk);
  EXPECT_TRUE(found == large);
  VerifyProgress progress;
  do {
    ASSERT_EQ(store_->verify(progress.next, 1000, &progress), Status::kOk);
  } while (progress.next != 0);
  EXPECT_EQ(progress.bytes, large.size());
  EXPECT_EQ(erase(store_.get(), space_, key_of(7)), Status::kOk);
  EXPECT_EQ(store_->stats().used_bytes, 0U);
}

TEST_P(LimitTest, OneAboveTheLargestIsRefusedByName) {
  const Bytes piece(1 << 20);
  const std::vector<std::span<const std::byte>> pieces(NKV_MAX_OBJECT_BYTES / piece.size() + 1,
                                                       piece);
  const Bytes key = key_of(1);
  ObjectItem item;
  item.key = key;
  item.source = pieces;
  Job job;
  job.kind = JobKind::kSet;
  EXPECT_EQ(run_one(store_.get(), space_, item, job), Status::kObjectTooLarge);
  if (GetParam() != "memory") return;
  make("544MiB");
  item.source = std::span(pieces).subspan(1);
  EXPECT_EQ(run_one(store_.get(), space_, item, job), Status::kOk) << "the largest";
  VerifyProgress progress;
  EXPECT_EQ(store_->verify(0, 1 << 20, &progress), Status::kOk);
  EXPECT_EQ(progress.bytes, NKV_MAX_OBJECT_BYTES);
}

TEST(NamedNamespaceTest, LongNamesOutliveTheStore) {
  const TemporaryFile file("names");
  const std::string uri = "cpu:" + file.path().string() + "?memory=16MiB&huge=off";
  std::unique_ptr<ObjectStore> store;
  ObjectStore::Options options;
  options.max_namespaces = 6;
  ASSERT_EQ(ObjectStore::create(uri, options, &store), Status::kOk);
  std::vector<std::string> names;
  for (const std::size_t bytes : {10UL, 300UL, 400UL}) names.emplace_back(bytes, 'n');
  std::uint32_t space = 0;
  for (const std::string& name : names) {
    ASSERT_EQ(store->open_namespace(engine(name), &space), Status::kOk);
    ASSERT_EQ(set(store.get(), space, key_of(1), contents(name.size(), 5000)), Status::kOk);
  }
  store.reset();
  ASSERT_EQ(ObjectStore::open(uri, options, &store), Status::kOk);
  const std::vector<NamespaceInfo> listed = store->namespaces();
  ASSERT_EQ(listed.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(listed[i].text, names[i] + " bf16 LBHNC rank 0 group 0");
    EXPECT_EQ(listed[i].objects, 1U);
    EXPECT_EQ(listed[i].users, 0U);
    ASSERT_EQ(store->open_namespace(engine(names[i]), &space), Status::kOk);
    Bytes found;
    ASSERT_EQ(get(store.get(), space, key_of(1), &found), Status::kOk);
    EXPECT_EQ(found, contents(names[i].size(), 5000));
  }
}

}  // namespace
}  // namespace nearkv::test
