#include "runtime/cuda/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/checksum.h"
#include "runtime/files/file_operations.h"

namespace giro::cuda {
namespace {

using detail::digits_of;

constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
constexpr std::string_view kSuffix = ".giro";

}  // namespace

DiskCache::DiskCache(std::shared_ptr<FileSystem> files, std::string directory, std::uint64_t max_bytes,
                     std::string failure)
    : files_(std::move(files)), directory_(std::move(directory)), max_bytes_(max_bytes), failure_(std::move(failure)) {}

DiskCache DiskCache::from_environment() {
  std::string directory, failure;
  if (const char* const setting = std::getenv("GIRO_CACHE")) {
    if (std::string_view(setting) != "0") directory = setting;
  } else if (const char* const caches = std::getenv("XDG_CACHE_HOME"); caches != nullptr && *caches != '\0') {
    directory = fmt::format("{}/giro", caches);
  } else if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    directory = fmt::format("{}/.cache/giro", home);
  } else {
    failure = "none of GIRO_CACHE, XDG_CACHE_HOME and HOME is set";
  }
  return DiskCache(posix_file_system(), directory, kMaxBytes, failure);
}

// Never destroyed, because kernels may still be compiled while static objects are destroyed.
DiskCache& DiskCache::instance() {
  static auto* const cache = new DiskCache(from_environment());
  return *cache;
}

std::string DiskCache::path_of(const std::string& key) const {
  return fmt::format("{}/{}{}", directory_, digits_of({key}), kSuffix);
}

// A file begins with a checksum of key and value, which also detects a file of another key.
std::optional<std::string> DiskCache::find(const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  try {
    const std::vector<char> bytes = files_->read(path);
    const std::string_view file(bytes.data(), bytes.size());
    const std::size_t digits = digits_of({}).size();
    if (file.size() < digits || file.substr(0, digits) != digits_of({key, file.substr(digits)})) return std::nullopt;
    std::error_code ignored;  // the time only decides which files are removed first
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
    return std::string(file.substr(digits));
  } catch (const Error&) {
    return std::nullopt;
  }
}

void DiskCache::add(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (directory_.empty() || !failure_.empty()) return;
  const std::string path = path_of(key);
  try {
    replace_file(*files_, path, digits_of({key, value}) + value);
  } catch (const Error& error) {
    failure_ = error.what();
    return;
  }
  detail::ignore_errors([&] { remove_oldest(path); });  // another process may be removing files too
}

std::string DiskCache::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// Old temporaries were left by processes that died; another process may be about to rename a recent one.
void DiskCache::remove_oldest(const std::string& but) {
  struct File {
    std::filesystem::file_time_type used;
    std::string path;
    std::uint64_t bytes;
  };
  std::vector<File> found;
  std::uint64_t total = 0;
  for (const std::string& name : files_->list(directory_)) {
    if (name.find(kSuffix) == std::string::npos) continue;
    const std::string path = fmt::format("{}/{}", directory_, name);
    std::error_code error;
    const auto used = std::filesystem::last_write_time(path, error);
    if (error) continue;  // another process has removed it
    const bool is_temporary = !name.ends_with(kSuffix);
    if (is_temporary && used > std::filesystem::file_time_type::clock::now() - std::chrono::hours(1)) continue;
    found.push_back({used, path, files_->status(path).bytes});
    total += found.back().bytes;
  }
  std::sort(found.begin(), found.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : found) {
    if (total <= max_bytes_) return;
    if (file.path == but) continue;
    detail::ignore_errors([&] { files_->remove(file.path); });  // another process may have removed it first
    total -= file.bytes;
  }
}

std::string disk_cache_error() { return DiskCache::instance().failure(); }

}  // namespace giro::cuda
