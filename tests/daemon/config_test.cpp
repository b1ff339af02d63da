// Configuration files: what is taken, and how what is wrong is refused.
#include "daemon/server/config.hpp"

#include <gtest/gtest.h>

namespace nearkv::test {
namespace {

TEST(ConfigTest, EverythingCanBeSet) {
  ServerConfig config;
  std::string reason;
  ASSERT_EQ(parse_config(R"(
    workers = 3
    eviction = "lru"
    patience_ms = 250
    scrub_rate = "16MiB"
    [pool]
    path = "/dev/dax0.0"
    size = "64GiB"
    max_objects = 1000000
    max_namespaces = 77
    huge_pages = false
    seal_key_file = "/etc/nearkv/key"
    defragment_above = 0.1
    [socket]
    path = "/tmp/socket"
    mode = "0600"
    [clients]
    max = 12
    window = "32MiB"
    registered = "1GiB"
    [log]
    level = "warning"
    form = "json"
    [metrics]
    address = "::1"
    port = 9464
    [[tenant]]
    number = 7
    name = "engine"
    uids = [1000, 1001]
    gids = [2000]
    quota = "8GiB"
    permissions = ["read", "admin"]
    max_clients = 5
    max_namespaces = 9
    [[tenant]]
    number = 8
    gids = [3000]
  )",
                         "file", &config, &reason),
            Status::kOk)
      << reason;
  EXPECT_EQ(config.workers, 3U);
  EXPECT_EQ(config.eviction, "lru");
  EXPECT_EQ(config.patience.count(), 250);
  EXPECT_EQ(config.scrub_bytes_per_s, 16U << 20);
  EXPECT_EQ(config.pools[0].path, "/dev/dax0.0");
  EXPECT_EQ(config.pools[0].size_bytes, 64ULL << 30);
  EXPECT_EQ(config.pools[0].max_objects, 1000000U);
  EXPECT_EQ(config.pools[0].max_namespaces, 77U);
  EXPECT_FALSE(config.pools[0].huge_pages);
  EXPECT_EQ(config.pools[0].seal_key_file, "/etc/nearkv/key");
  EXPECT_EQ(config.pools[0].defragment_above, 0.1);
  EXPECT_EQ(config.socket.path, "/tmp/socket");
  EXPECT_EQ(config.socket.mode, 0600U);
  EXPECT_EQ(config.clients.max, 12U);
  EXPECT_EQ(config.clients.window_bytes, 32U << 20);
  EXPECT_EQ(config.clients.registered_bytes, 1U << 30);
  EXPECT_EQ(config.log.level, LogLevel::kWarning);
  EXPECT_EQ(config.log.form, LogForm::kJson);
  EXPECT_EQ(config.metrics.address, "::1");
  EXPECT_EQ(config.metrics.port, 9464);
  ASSERT_EQ(config.tenants.size(), 2U);
  const TenantConfig& tenant = config.tenants[0];
  EXPECT_EQ(tenant.number, 7);
  EXPECT_EQ(tenant.name, "engine");
  EXPECT_EQ(tenant.uids, (std::vector<std::uint32_t>{1000, 1001}));
  EXPECT_EQ(tenant.gids, (std::vector<std::uint32_t>{2000}));
  EXPECT_EQ(tenant.quota_bytes, 8ULL << 30);
  EXPECT_EQ(tenant.permissions, kMayRead | kMayAdminister);
  EXPECT_EQ(tenant.max_clients, 5U);
  EXPECT_EQ(tenant.max_namespaces, 9U);
  EXPECT_EQ(config.tenants[1].permissions, kMayRead | kMayWrite | kMayErase);
}

TEST(ConfigTest, SeveralPoolsAreTiersFastFirst) {
  ServerConfig config;
  std::string reason;
  ASSERT_EQ(parse_config(R"(
    [[pool]]
    size = "8GiB"
    [[pool]]
    device = "file"
    path = "/mnt/nvme/pool"
    size = "1TiB"
    [stack]
    high_watermark = 0.95
    low_watermark = 0.5
    promote_after = 3
    write_through = true
    patience_ms = 20
  )",
                         "file", &config, &reason),
            Status::kOk)
      << reason;
  ASSERT_EQ(config.pools.size(), 2U);
  EXPECT_FALSE(config.pools[0].is_file);
  EXPECT_EQ(config.pools[0].size_bytes, 8ULL << 30);
  EXPECT_TRUE(config.pools[1].is_file);
  EXPECT_EQ(config.pools[1].path, "/mnt/nvme/pool");
  EXPECT_EQ(config.stack.high_watermark, 0.95);
  EXPECT_EQ(config.stack.low_watermark, 0.5);
  EXPECT_EQ(config.stack.promote_after, 3U);
  EXPECT_TRUE(config.stack.write_through);
  EXPECT_EQ(config.stack.patience.count(), 20);
}

TEST(ConfigTest, TheShippedFileIsRight) {
  ServerConfig config;
  std::string reason;
  EXPECT_EQ(read_config(NEARKV_SHARE "/nearkv.toml", &config, &reason), Status::kOk) << reason;
  EXPECT_FALSE(config.tenants.empty());
  EXPECT_EQ(read_config(NEARKV_SHARE "/none.toml", &config, &reason), Status::kIoError);
  reason.clear();
  EXPECT_EQ(read_config(NEARKV_SHARE, &config, &reason), Status::kIoError) << "a folder";
  EXPECT_NE(reason.find("cannot be read"), std::string::npos) << reason;
}

TEST(ConfigTest, ASocketsPathIsNoLongerThanTheSystemTakes) {
  const auto parse = [](std::size_t bytes, std::string* reason) {
    ServerConfig config;
    const std::string path = "/run/" + std::string(bytes - 5, 'n');
    return parse_config("[socket]\npath = \"" + path + "\"", "nearkv.toml", &config, reason);
  };
  std::string reason;
  EXPECT_EQ(parse(107, &reason), Status::kOk) << reason;
  EXPECT_EQ(parse(108, &reason), Status::kBadArgument);
  EXPECT_NE(reason.find("nearkv.toml:2: socket.path: "), std::string::npos) << reason;
  EXPECT_NE(reason.find("has 108 bytes; a socket's path may have 1 to 107"), std::string::npos);
}

struct Mistake {
  const char* name;
  const char* text;
  const char* place;    ///< File, line and key.
  const char* allowed;  ///< What the reason says of what is allowed.
};

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsRefusedWithFileLineKeyAndWhatIsAllowed) {
  ServerConfig config;
  std::string reason;
  EXPECT_EQ(parse_config(GetParam().text, "nearkv.toml", &config, &reason), Status::kBadArgument);
  EXPECT_EQ(reason.rfind(GetParam().place, 0), 0U) << reason;
  EXPECT_NE(reason.find(GetParam().allowed), std::string::npos) << reason;
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MistakeTest,
    testing::Values(
        Mistake{"Syntax", "workers = 1\npool = [", "nearkv.toml:2: ", ""},
        Mistake{"UnknownKey", "\nworker = 1", "nearkv.toml:2: worker: ", "\"workers\""},
        Mistake{"UnknownKeyInTable", "[pool]\nsise = 1", "nearkv.toml:2: pool.sise: ", "\"size\""},
        Mistake{"UnknownTable", "[pol]\npath = \"x\"", "nearkv.toml:1: pol: ", "\"pool\""},
        Mistake{"NoTable", "pool = 3", "nearkv.toml:1: pool: ", "[pool]"},
        Mistake{"WorkersText", "workers = \"2\"", "nearkv.toml:1: workers: ", "from 0 to 1024"},
        Mistake{"WorkersMany", "workers = 1025", "nearkv.toml:1: workers: ", "from 0 to 1024"},
        Mistake{"WorkersNegative", "workers = -1", "nearkv.toml:1: workers: ", "from 0 to 1024"},
        Mistake{"Eviction", "eviction = \"lfu\"", "nearkv.toml:1: eviction: ", "lru, chain_lhd"},
        Mistake{"Rate", "scrub_rate = \"1 MB\"", "nearkv.toml:1: scrub_rate: ", "64MiB"},
        Mistake{"SizeSmall", "[pool]\nsize = 4096", "nearkv.toml:2: pool.size: ", "4194304"},
        Mistake{"SizeHuge", "[pool]\nsize = \"999999TiB\"", "nearkv.toml:2: pool.size: ", "64MiB"},
        Mistake{"SizeFloat", "[pool]\nsize = 1.5", "nearkv.toml:2: pool.size: ", "64MiB"},
        Mistake{"PathEmpty", "[pool]\npath = \"\"", "nearkv.toml:2: pool.path: ", "a file"},
        Mistake{"PathQuestion", "[pool]\npath = \"a?b\"",
                "nearkv.toml:2: pool.path: ", "question mark"},
        Mistake{"Device", "[pool]\ndevice = \"nvme\"", "nearkv.toml:2: pool.device: ", "\"file\""},
        Mistake{"FileWithoutPath", "[pool]\ndevice = \"file\"",
                "nearkv.toml:1: pool.path: ", "missing"},
        Mistake{"SamePath", "[[pool]]\npath = \"a\"\n[[pool]]\npath = \"a\"",
                "nearkv.toml:4: pool.path: ", "another pool"},
        Mistake{"StackOfOne", "[stack]\npromote_after = 2", "nearkv.toml:1: stack: ", "[[pool]]"},
        Mistake{"Watermark", "[[pool]]\n[[pool]]\n[stack]\nhigh_watermark = 1.5",
                "nearkv.toml:4: stack.high_watermark: ", "from 0.01 to 1"},
        Mistake{"Watermarks", "[[pool]]\n[[pool]]\n[stack]\nlow_watermark = 0.9",
                "nearkv.toml:4: stack.low_watermark: ", "less than"},
        Mistake{"Promote", "[[pool]]\n[[pool]]\n[stack]\npromote_after = 0",
                "nearkv.toml:4: stack.promote_after: ", "from 1"},
        Mistake{"HugePages", "[pool]\nhuge_pages = 1",
                "nearkv.toml:2: pool.huge_pages: ", "true or false"},
        Mistake{"Mode", "[socket]\nmode = \"0999\"", "nearkv.toml:2: socket.mode: ", "\"0660\""},
        Mistake{"ModeNumber", "[socket]\nmode = 432", "nearkv.toml:2: socket.mode: ", "octal"},
        Mistake{"ClientsNone", "[clients]\nmax = 0", "nearkv.toml:2: clients.max: ", "from 1"},
        Mistake{"Window", "[clients]\nwindow = 1", "nearkv.toml:2: clients.window: ", "1048576"},
        Mistake{"Level", "[log]\nlevel = \"loud\"", "nearkv.toml:2: log.level: ", "\"warning\""},
        Mistake{"Form", "[log]\nform = \"xml\"", "nearkv.toml:2: log.form: ", "\"json\""},
        Mistake{"Port", "[metrics]\nport = 70000", "nearkv.toml:2: metrics.port: ", "65535"},
        Mistake{"NoNumber", "[[tenant]]\nuids = [1]", "nearkv.toml:1: tenant.number: ", "missing"},
        Mistake{"Number", "[[tenant]]\nnumber = 65536", "nearkv.toml:2: tenant.number: ", "65535"},
        Mistake{"NobodysTenant", "[[tenant]]\nnumber = 1", "nearkv.toml:1: tenant.uids: ", "gids"},
        Mistake{"Namespaces", "[[tenant]]\nnumber = 1\nuids = [1]\nmax_namespaces = 0",
                "nearkv.toml:4: tenant.max_namespaces: ", "from 1"},
        Mistake{"Uids", "[[tenant]]\nnumber = 1\nuids = 5",
                "nearkv.toml:3: tenant.uids: ", "a list"},
        Mistake{"UidText", "[[tenant]]\nnumber = 1\nuids = [\"a\"]",
                "nearkv.toml:3: tenant.uids: ", "whole number"},
        Mistake{"Permission", "[[tenant]]\nnumber = 1\nuids = [1]\npermissions = [\"all\"]",
                "nearkv.toml:4: tenant.permissions: ", "\"erase\""},
        Mistake{"Quota", "[[tenant]]\nnumber = 1\nuids = [1]\nquota = 0",
                "nearkv.toml:4: tenant.quota: ", "from 1"},
        Mistake{"Name",
                "[[tenant]]\nnumber = 1\nuids = [1]\nname = \"0123456789012345678901234567890123\"",
                "nearkv.toml:4: tenant.name: ", "32 bytes"},
        Mistake{"Twice", "[[tenant]]\nnumber = 1\nuids = [1]\n[[tenant]]\nnumber = 1\nuids = [2]",
                "nearkv.toml:5: tenant.number: ", "already"},
        Mistake{"TenantTable", "[tenant]\nnumber = 1", "nearkv.toml:1: tenant: ", "[[tenant]]"}),
    [](const auto& mistake) { return mistake.param.name; });

}  // namespace
}  // namespace nearkv::test
