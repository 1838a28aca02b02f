#include <gtest/gtest.h>

#if GIRO_WITH_CUDA
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/cuda/disk_cache.h"
#include "tests/support/environment_setting.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using cuda::DiskCache;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCache cache(std::uint64_t max_bytes = 1 << 20) {
    return DiskCache(posix_file_system(), directory_ / "cache", max_bytes);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "cache")) found.push_back(entry.path());
    return found;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(DiskCacheTest, KeepsCodeForTheNextProcess) {
  EXPECT_EQ(cache().find("source"), std::nullopt);
  const std::string code("\0machine\0code", 13);
  cache().add("source", code);
  EXPECT_EQ(cache().find("source"), code);
  EXPECT_EQ(cache().find("another source"), std::nullopt);
  EXPECT_EQ(cache().failure(), "");
}

TEST_F(DiskCacheTest, SkipsDamagedFiles) {
  cache().add("source", "machine code");
  const std::string path = files().at(0), whole = test::read_text(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    test::write_text(path, damaged);
    EXPECT_EQ(cache().find("source"), std::nullopt) << "byte " << i;
    test::write_text(path, whole.substr(0, i));
    EXPECT_EQ(cache().find("source"), std::nullopt) << i << " bytes";
  }
  cache().add("source", "machine code");
  EXPECT_EQ(cache().find("source"), "machine code");
}

TEST_F(DiskCacheTest, SkipsFilesOfAnotherKey) {
  cache().add("one", "code of one");
  const std::string one = files().at(0);
  cache().add("two", "code of two");
  for (const std::filesystem::path& path : files()) {
    if (path != one) std::filesystem::copy_file(one, path, std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache().find("two"), std::nullopt);
  EXPECT_EQ(cache().find("one"), "code of one");
}

TEST_F(DiskCacheTest, ReportsWhyItCannotWrite) {
  test::write_text(directory_ / "cache", "a file");
  DiskCache there = cache();
  there.add("source", "code");
  EXPECT_NE(there.failure().find(directory_ / "cache"), std::string::npos) << there.failure();
  EXPECT_EQ(there.find("source"), std::nullopt);
}

TEST_F(DiskCacheTest, RemovesLeastRecentlyUsed) {
  const std::string code(1000, 'x');
  for (const char* key : {"a", "b", "c"}) {
    cache().add(key, code);
    // An hour apart, so that every file system can tell the times apart.
    for (const std::filesystem::path& path : files()) {
      std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::hours(1));
    }
  }
  EXPECT_TRUE(cache().find("a"));  // makes it the youngest
  cache(2500).add("d", code);
  EXPECT_TRUE(cache().find("d"));
  EXPECT_TRUE(cache().find("a"));
  EXPECT_FALSE(cache().find("b"));
  EXPECT_FALSE(cache().find("c"));
}

TEST_F(DiskCacheTest, IsSafeBetweenProcesses) {
  const auto code_of = [](int key) {
    return std::string(static_cast<std::size_t>(1000 + 10 * key), static_cast<char>('a' + key));
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool right = true;
      for (int i = 0; i < 60; ++i) {
        const int key = (i * 7 + process) % 5;
        DiskCache own = cache(3000);  // smaller than all entries together
        const auto found = own.find(std::to_string(key));
        right = right && (!found || *found == code_of(key));
        own.add(std::to_string(key), code_of(key));
        right = right && own.failure().empty();
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(DiskCacheTest, FollowsTheEnvironmentVariable) {
  const std::string there = directory_ / "there";
  {
    const test::EnvironmentSetting setting("GIRO_CACHE", there.c_str());
    DiskCache::from_environment().add("source", "code");
    EXPECT_TRUE(std::filesystem::exists(there));
    EXPECT_EQ(DiskCache::from_environment().find("source"), "code");
  }
  for (const char* off : {"", "0"}) {
    const test::EnvironmentSetting setting("GIRO_CACHE", off);
    DiskCache::from_environment().add("source", "code");
    EXPECT_EQ(DiskCache::from_environment().find("source"), std::nullopt);
  }
}

}  // namespace
}  // namespace giro
#endif
