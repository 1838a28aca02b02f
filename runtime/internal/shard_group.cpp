#include "runtime/internal/shard_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include <giro/runtime/archive.h>
#include <giro/runtime/error.h>

#include "runtime/internal/file_bytes.h"

namespace giro::detail {
namespace {

std::string receipt_name(const Shard& shard) { return fmt::format("shard-{}-of-{}.json", shard.index, shard.count); }

// Another process's, once it is there.
std::optional<std::vector<Manifest::File>> read_receipt(FileSystem& files, const std::string& path) {
  if (files.status(path).kind != FileSystem::Kind::file) return std::nullopt;
  const FileBytes bytes = read_bytes(files, path, nullptr, Manifest::kMaxBytes);
  Archive archive = Archive::read(std::string_view(bytes.data.get(), bytes.size));
  std::vector<Manifest::File> of_shard;
  archive("files", of_shard);
  return of_shard;
}

}  // namespace

std::string ShardGroup::unit_name(std::int64_t steps) const {
  const std::size_t host = group_.name.find('@');
  return fmt::format("{}.tmp-{}.{}{}", detail::unit_name(steps), group_.name.substr(0, host), saves_,
                     group_.name.substr(host));
}

bool ShardGroup::may_be_written(const StoreEntry& entry) const {
  if (!*this || entry.kind != StoreEntryKind::incomplete) return false;
  const std::string prefix =
      fmt::format("{}.tmp-{}.", detail::unit_name(entry.steps), group_.name.substr(0, group_.name.find('@')));
  if (!entry.name.starts_with(prefix)) return false;
  std::int64_t save = -1;
  std::from_chars(entry.name.data() + prefix.size(), entry.name.data() + entry.name.size(), save);
  return save >= saves_;
}

void ShardGroup::send(const std::string& unit, const std::vector<Manifest::File>& files) const {
  std::vector<Manifest::File> sent = files;
  Archive archive;
  archive("files", sent);
  const std::string text = archive.text(), path = path_of(unit, receipt_name(group_.shard)), written = path + ".tmp";
  const auto writer = files_.create(written);
  writer->write(text.data(), text.size());
  writer->close();
  files_.rename(written, path);
}

std::vector<Manifest::File> ShardGroup::receive(const std::string& unit) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLongestPause{20};
  const auto until = Clock::now() + std::chrono::duration<double>(group_.timeout);
  const auto path_of_receipt = [&](int index) { return path_of(unit, receipt_name({index, group_.shard.count})); };
  std::vector<std::optional<std::vector<Manifest::File>>> received(static_cast<std::size_t>(group_.shard.count - 1));
  std::chrono::milliseconds pause{1};
  for (;;) {
    std::vector<int> missing;
    for (int index = 1; index < group_.shard.count; ++index) {
      auto& receipt = received[static_cast<std::size_t>(index - 1)];
      if (!receipt) receipt = read_receipt(files_, path_of_receipt(index));
      if (!receipt) missing.push_back(index);
    }
    if (missing.empty()) break;
    if (Clock::now() >= until) {
      throw Error(ErrorCode::communication,
                  fmt::format("checkpoint '{}': of {} shards, {} did not come within {} s", unit, group_.shard.count,
                              fmt::join(missing, ", "), group_.timeout));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  std::vector<Manifest::File> all;
  for (int index = 1; index < group_.shard.count; ++index) {
    const auto& of_shard = *received[static_cast<std::size_t>(index - 1)];
    all.insert(all.end(), of_shard.begin(), of_shard.end());
    files_.remove(path_of_receipt(index));
  }
  return all;
}

}  // namespace giro::detail
