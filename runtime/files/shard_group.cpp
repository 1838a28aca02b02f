#include "runtime/files/shard_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include <giro/runtime/files/archive.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/store_names.h"
#include "runtime/throw_error.h"

namespace giro {

std::string new_save_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  static std::atomic<int> count{0};
  return fmt::format("{}-{}.{}@{}", ::getpid(), now.count(), ++count, detail::host_name());
}

namespace detail {
namespace {

std::string receipt_name(const Shard& shard) { return fmt::format("shard-{}-of-{}.json", shard.index, shard.count); }

std::vector<Manifest::File> read_receipt(FileSystem& files, const std::string& path) {
  const FileBytes bytes = read_bytes(files, path, Manifest::kMaxBytes);
  Archive archive = Archive::read(std::string_view(bytes.data.get(), bytes.size));
  std::vector<Manifest::File> of_shard;
  archive("files", of_shard);
  return of_shard;
}

}  // namespace

void ShardGroup::begin(const std::string& id) {
  if (!*this) return;
  if (id.find('@') == std::string::npos) {
    throw_invalid("a save of {} shards has the id '{}', expected one from new_save_id", group_.shard.count, id);
  }
  if (id == id_) return;
  id_ = id;
  received_.assign(static_cast<std::size_t>(group_.shard.count - 1), std::nullopt);
  is_named_ = false;
}

std::string ShardGroup::unit_name(std::int64_t steps) const {
  return *this ? fmt::format("{}.tmp-{}", detail::unit_name(steps), id_) : side_name(steps, "tmp");
}

void ShardGroup::send(const std::string& unit, std::vector<Manifest::File> files) const {
  Archive archive;
  archive("files", files);
  const std::string text = archive.text(), path = path_of(unit, receipt_name(group_.shard)), written = path + ".tmp";
  const auto writer = files_.create(written);
  writer->write(text.data(), text.size());
  writer->close();
  files_.rename(written, path);
}

std::vector<Manifest::File> ShardGroup::receive(const std::string& unit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLongestPause{20};
  const auto until = Clock::now() + std::chrono::duration<double>(group_.timeout);
  std::chrono::milliseconds pause{1};
  for (;;) {
    // Network file systems cache a missing name for longer than a directory listing.
    const std::vector<std::string> names = files_.list(unit);
    std::vector<int> missing;
    for (int index = 1; index < group_.shard.count; ++index) {
      auto& receipt = received_[static_cast<std::size_t>(index - 1)];
      const std::string name = receipt_name({index, group_.shard.count});
      if (!receipt && std::binary_search(names.begin(), names.end(), name)) {
        receipt = read_receipt(files_, path_of(unit, name));
      }
      if (!receipt) missing.push_back(index);
    }
    if (missing.empty()) break;
    if (Clock::now() >= until) {
      throw_error(ErrorCode::communication, "checkpoint '{}': shard(s) {} of {} did not arrive within {} s", unit,
                  fmt::join(missing, ", "), group_.shard.count, group_.timeout);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  std::vector<Manifest::File> all;
  for (const auto& of_shard : received_) all.insert(all.end(), of_shard->begin(), of_shard->end());
  return all;
}

void ShardGroup::remove_receipts(const std::string& unit) const {
  for (int index = 1; index < group_.shard.count; ++index) {
    const std::string path = path_of(unit, receipt_name({index, group_.shard.count}));
    if (files_.status(path).kind != FileSystem::Kind::none) files_.remove(path);
  }
}

}  // namespace detail
}  // namespace giro
