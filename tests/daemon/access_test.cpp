// Who may do what: permissions, and tenants that cannot reach each other.
#include <grp.h>
#include <sys/wait.h>

#include <array>

#include "server_fixture.hpp"
#include "support/objects.hpp"

namespace nearkv::test {
namespace {

class AccessTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectStore> start(std::vector<TenantConfig> tenants) {
    ServerConfig config = small_config(folder_);
    config.tenants = std::move(tenants);
    config.socket.mode = 0666;
    server_ = start_server(config);
    return connect_to(config.socket.path);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

struct PermissionCase {
  std::uint8_t permissions;
  const char* name;
};

class PermissionTest : public AccessTest, public testing::WithParamInterface<PermissionCase> {};

TEST_P(PermissionTest, AllowsWhatItSaysAndNoMore) {
  const std::uint8_t permissions = GetParam().permissions;
  const auto store = start({own_tenant(1, permissions)});
  const auto expected = [&](Permission needed) {
    return (permissions & needed) != 0 ? Status::kOk : Status::kDenied;
  };
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  EXPECT_EQ(set(store.get(), space, key_of(1), contents(1, 5000)), expected(kMayWrite));
  Bytes found;
  const Status got = get(store.get(), space, key_of(1), &found);
  if ((permissions & kMayRead) == 0) {
    EXPECT_EQ(got, Status::kDenied);
  } else {
    EXPECT_EQ(got, (permissions & kMayWrite) != 0 ? Status::kOk : Status::kNotFound);
  }
  const bool seen = (permissions & kMayRead) != 0 && (permissions & kMayWrite) != 0;
  EXPECT_EQ(exists(store.get(), space, key_of(1)), seen);
  const Bytes key = key_of(1);
  const Key keys[] = {key};
  EXPECT_EQ(store->match_prefix(space, keys), 0U);
  Status pinned = Status::kInternal;
  const LeaseId lease = store->pin(space, keys, std::chrono::hours(1), std::span(&pinned, 1));
  EXPECT_EQ(lease != 0, seen);
  if (lease != 0) {
    EXPECT_EQ(store->unpin(lease), Status::kOk);
  }
  const Status erased = erase(store.get(), space, key);
  EXPECT_EQ(erased == Status::kDenied, (permissions & kMayErase) == 0);
  EXPECT_EQ(store->set_quota(1, 1 << 30), expected(kMayAdminister));
  VerifyProgress progress;
  EXPECT_EQ(store->verify(0, 16, &progress), expected(kMayAdminister));
  std::uint64_t moved_bytes = 0;
  EXPECT_EQ(store->defragment(1 << 20, &moved_bytes), expected(kMayAdminister));
  const bool admin = (permissions & kMayAdminister) != 0;
  EXPECT_EQ(store->stats().total_bytes != 0, admin);
  EXPECT_EQ(store->namespaces().size() == 1, admin);
}

INSTANTIATE_TEST_SUITE_P(Permissions, PermissionTest,
                         testing::Values(PermissionCase{kMayRead, "Read"},
                                         PermissionCase{kMayWrite, "Write"},
                                         PermissionCase{kMayRead | kMayWrite, "ReadWrite"},
                                         PermissionCase{kMayErase, "Erase"},
                                         PermissionCase{kMayAdminister, "Admin"},
                                         PermissionCase{kMayAll, "All"}, PermissionCase{0, "None"}),
                         [](const auto& permission) { return permission.param.name; });

TEST_F(AccessTest, NobodyOpensANamespaceOfATenantThatIsNotHis) {
  TenantConfig others = own_tenant(2);
  others.uids = {::geteuid() + 1};
  const auto store = start({own_tenant(1), others});
  std::uint32_t space = 0;
  EXPECT_EQ(store->open_namespace(namespace_of(2), &space), Status::kDenied);
  EXPECT_EQ(store->open_namespace(namespace_of(3), &space), Status::kDenied);
  EXPECT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
}

TEST_F(AccessTest, PermissionsAreThoseOfTheNamespacesTenant) {
  const auto store = start({own_tenant(1, kMayRead | kMayWrite), own_tenant(2, kMayRead)});
  std::uint32_t writable = 0;
  std::uint32_t readable = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &writable), Status::kOk);
  ASSERT_EQ(store->open_namespace(namespace_of(2), &readable), Status::kOk);
  EXPECT_EQ(set(store.get(), writable, key_of(1), contents(1, 100)), Status::kOk);
  EXPECT_EQ(set(store.get(), readable, key_of(1), contents(1, 100)), Status::kDenied);
  EXPECT_FALSE(exists(store.get(), readable, key_of(1)));
}

TEST_F(AccessTest, NobodyEndsALeaseOfAnother) {
  const auto store = start({own_tenant(1)});
  const auto other = connect_to(folder_.file("socket"));
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 100)), Status::kOk);
  const Bytes key = key_of(1);
  const Key keys[] = {key};
  Status pinned = Status::kInternal;
  const LeaseId lease = store->pin(space, keys, std::chrono::hours(1), std::span(&pinned, 1));
  ASSERT_NE(lease, 0U);
  EXPECT_EQ(other->unpin(lease), Status::kNotFound);
  EXPECT_EQ(erase(store.get(), space, key), Status::kBusy);
  EXPECT_EQ(store->unpin(lease), Status::kOk);
}

TEST_F(AccessTest, AStrangerIsRefusedWithAReason) {
  TenantConfig others = own_tenant(1);
  others.uids = {::geteuid() + 1};
  ServerConfig config = small_config(folder_);
  config.tenants = {others};
  server_ = start_server(config);
  std::unique_ptr<ObjectStore> store;
  std::string reason;
  EXPECT_EQ(ObjectStore::connect(config.socket.path, {}, &store, &reason), Status::kDenied);
  EXPECT_NE(reason.find("[[tenant]]"), std::string::npos) << reason;
}

TEST_F(AccessTest, AnotherUserIsKnownByItsCredentialsAndGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  constexpr uid_t kNobody = 65534;
  constexpr gid_t kGroup = 54321;
  TenantConfig others = own_tenant(2);
  others.uids = {};
  others.gids = {kGroup};
  const auto admin = start({own_tenant(1), others});
  std::filesystem::permissions(std::filesystem::path(folder_.file("socket")).parent_path(),
                               std::filesystem::perms::all);
  const auto try_as = [&](bool in_group) {
    const pid_t child = ::fork();
    if (child == 0) {
      const gid_t group = kGroup;
      if (::setgroups(in_group ? 1 : 0, &group) != 0 || ::setgid(kNobody) != 0 ||
          ::setuid(kNobody) != 0) {
        ::_exit(10);
      }
      std::unique_ptr<ObjectStore> store;
      const Status connected = ObjectStore::connect(folder_.file("socket"), {}, &store);
      if (connected != Status::kOk) ::_exit(connected == Status::kDenied ? 1 : 11);
      std::uint32_t space = 0;
      const bool own = store->open_namespace(namespace_of(2), &space) == Status::kOk;
      const bool other = store->open_namespace(namespace_of(1), &space) == Status::kDenied;
      ::_exit(own && other ? 0 : 12);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(try_as(true), 0);
  EXPECT_EQ(try_as(false), 1);
}

TEST_F(AccessTest, ATenantMayHaveOnlySoManyClients) {
  TenantConfig tenant = own_tenant(1);
  tenant.max_clients = 2;
  const auto first = start({tenant});
  auto second = connect_to(folder_.file("socket"));
  std::unique_ptr<ObjectStore> third;
  std::string reason;
  EXPECT_EQ(ObjectStore::connect(folder_.file("socket"), {}, &third, &reason), Status::kQueueFull);
  EXPECT_NE(reason.find("max_clients"), std::string::npos) << reason;
  second.reset();
  EXPECT_TRUE(eventually(
      [&] { return ObjectStore::connect(folder_.file("socket"), {}, &third) == Status::kOk; }));
}

TEST_F(AccessTest, ATenantFillsTheTableOfNamespacesNoFurtherThanItsShare) {
  ServerConfig config = small_config(folder_);
  config.pools[0].max_namespaces = 16;
  config.pools[0].path = folder_.file("pool");
  server_ = start_server(config);
  auto store = connect_to(config.socket.path);
  const auto open = [&](std::uint16_t tenant, int model) {
    std::uint32_t number = 0;
    return store->open_namespace(namespace_of(tenant, std::to_string(model)), &number);
  };
  for (int model = 0; model < 8; ++model) ASSERT_EQ(open(1, model), Status::kOk);
  EXPECT_EQ(open(1, 8), Status::kNamespacesFull);
  for (int model = 0; model < 8; ++model) EXPECT_EQ(open(1, model), Status::kOk) << "it is there";
  for (int model = 0; model < 8; ++model) ASSERT_EQ(open(2, model), Status::kOk);
  // What is there counts after a restart too, and another limit can be set.
  server_.reset();
  config.tenants[0].max_namespaces = 5;
  server_ = start_server(config);
  EXPECT_EQ(open(1, 7), Status::kOk);
  EXPECT_EQ(open(1, 8), Status::kNamespacesFull);
}

TEST_F(AccessTest, ShareOfNamespacesIsOneOfThosePoolWasMadeFor) {
  ServerConfig config = small_config(folder_);
  config.pools[0].max_namespaces = 8;
  config.pools[0].path = folder_.file("pool");
  server_ = start_server(config);
  server_.reset();
  config.pools[0].max_namespaces = 1024;  // Of a pool that were made now.
  server_ = start_server(config);
  auto store = connect_to(config.socket.path);
  std::uint32_t number = 0;
  const auto open = [&](std::uint16_t tenant, int model) {
    return store->open_namespace(namespace_of(tenant, std::to_string(model)), &number);
  };
  for (int model = 0; model < 4; ++model) ASSERT_EQ(open(1, model), Status::kOk);
  EXPECT_EQ(open(1, 4), Status::kNamespacesFull);
  for (int model = 0; model < 4; ++model) ASSERT_EQ(open(2, model), Status::kOk) << "its share";
  // What a tenant has closed makes room for it, and what its clients had open is closed with them.
  ASSERT_EQ(store->close_namespace(number), Status::kOk);
  EXPECT_EQ(open(1, 4), Status::kNamespacesFull) << "it was the other tenant's";
  EXPECT_EQ(open(2, 4), Status::kOk);
  store = connect_to(config.socket.path);
  EXPECT_TRUE(eventually([&] { return open(1, 4) == Status::kOk; }));
}

TEST_F(AccessTest, AnAdministratorAdoptsNamespacesAndUsesThemAsHeMay) {
  TenantConfig others = own_tenant(2);
  others.uids = {::geteuid() + 1};
  const auto admin = start({own_tenant(1, kMayRead | kMayAdminister), others});
  // Of another store, which only its namespaces' digests are known of.
  std::unique_ptr<ObjectStore> other;
  ASSERT_EQ(ObjectStore::create("cpu:?memory=16MiB", {}, &other), Status::kOk);
  std::uint32_t number = 0;
  Namespace name = namespace_of(2, "llama");
  name.salt = "secret";
  ASSERT_EQ(other->open_namespace(name, &number), Status::kOk);
  const NamespaceInfo info = other->namespaces().at(0);
  std::uint32_t adopted = 0;
  ASSERT_EQ(admin->adopt_namespace(info, &adopted), Status::kOk);
  const std::vector<NamespaceInfo> listed = admin->namespaces();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].digest, info.digest);
  EXPECT_EQ(listed[0].tenant, 2);
  EXPECT_EQ(listed[0].text, info.text);
  Bytes found;
  EXPECT_EQ(get(admin.get(), adopted, key_of(1), &found), Status::kNotFound);
  EXPECT_EQ(set(admin.get(), adopted, key_of(1), contents(1, 100)), Status::kDenied);
  std::uint32_t opened = 0;
  EXPECT_EQ(admin->open_namespace(name, &opened), Status::kDenied) << "it is not his tenant";
  NamespaceInfo too_long = info;
  too_long.text.assign(NKV_NAMESPACE_TEXT_BYTES + 1, 'x');
  EXPECT_EQ(admin->adopt_namespace(too_long, &adopted), Status::kNameTooLong);
}

TEST_F(AccessTest, OnlyAdministratorsAdoptAndAskForTiersAndWhatIsColdest) {
  const auto store = start({own_tenant(1, kMayRead | kMayWrite | kMayErase)});
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 100)), Status::kOk);
  EXPECT_TRUE(store->tier_stats().empty());
  EXPECT_TRUE(store->coldest(1 << 20).empty());
  NamespaceInfo info;
  info.tenant = 1;
  EXPECT_EQ(store->adopt_namespace(info, &space), Status::kDenied);
}

TEST_F(AccessTest, AClientsLeasesEndWithIt) {
  const auto store = start({own_tenant(1)});
  auto holder = connect_to(folder_.file("socket"));
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(holder->open_namespace(namespace_of(1), &space), Status::kOk);
  ASSERT_EQ(set(store.get(), space, key_of(1), contents(1, 100)), Status::kOk);
  const Bytes key = key_of(1);
  const Key keys[] = {key};
  Status pinned = Status::kInternal;
  ASSERT_NE(holder->pin(space, keys, std::chrono::hours(1), std::span(&pinned, 1)), 0U);
  ASSERT_EQ(erase(store.get(), space, key), Status::kBusy);
  holder.reset();
  EXPECT_TRUE(eventually([&] { return erase(store.get(), space, key) == Status::kOk; }));
}

TEST_F(AccessTest, QuotasOfTheConfigurationHoldAndCanBeReloaded) {
  TenantConfig tenant = own_tenant(1);
  tenant.quota_bytes = 4 << 20;
  ServerConfig config = small_config(folder_);
  config.tenants = {tenant};
  server_ = start_server(config);
  const auto store = connect_to(config.socket.path);
  std::uint32_t space = 0;
  ASSERT_EQ(store->open_namespace(namespace_of(1), &space), Status::kOk);
  EXPECT_EQ(set(store.get(), space, key_of(1), contents(1, 5 << 20)), Status::kQuota);
  config.tenants[0].quota_bytes = 8 << 20;
  server_->reload(config);
  EXPECT_EQ(set(store.get(), space, key_of(1), contents(1, 5 << 20)), Status::kOk);
  const std::vector<TenantUsage> usages = store->tenants();
  ASSERT_EQ(usages.size(), 1U);
  EXPECT_EQ(usages[0].quota_bytes, 8U << 20);
  EXPECT_EQ(usages[0].used_bytes, 5U << 20);
}

}  // namespace
}  // namespace nearkv::test
