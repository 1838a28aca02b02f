#include "runtime/files/store_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <tuple>
#include <utility>

#include "runtime/files/file_operations.h"
#include "runtime/text.h"

namespace giro::detail {
namespace {

constexpr std::string_view kPrefix = "checkpoint_", kLinesPrefix = "lines_", kLinesSuffix = ".jsonl";
constexpr std::pair<std::string_view, StoreEntryKind> kSides[] = {{".tmp-", StoreEntryKind::incomplete},
                                                                  {".old-", StoreEntryKind::old},
                                                                  {".trash-", StoreEntryKind::trash},
                                                                  {".ahead-", StoreEntryKind::ahead}};

std::optional<StoreEntry> parse_name(const std::string& name, const std::string& host) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t dot = std::min(name.find('.'), name.size());
  const auto steps = parse_number<std::int64_t>(std::string_view(name).substr(kPrefix.size(), dot - kPrefix.size()));
  if (!steps || *steps < 0 || name.substr(0, dot) != unit_name(*steps)) return std::nullopt;
  const std::string_view rest = std::string_view(name).substr(dot);
  // Version 0.1 wrote single files. Reading one is an error; being silent about it would lose a run.
  if (rest.empty() || rest == ".safetensors") return StoreEntry{*steps, StoreEntryKind::checkpoint, name, true};
  for (const auto& [side, kind] : kSides) {
    const std::size_t at = rest.find('@');
    if (!rest.starts_with(side) || at == std::string_view::npos) continue;
    return StoreEntry{*steps, kind, name, rest.substr(at + 1) == host};
  }
  return std::nullopt;
}

}  // namespace

std::string path_of(const std::string& dir, std::string_view name) {
  return (std::filesystem::path(dir) / name).string();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string this_process() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

std::string unit_name(std::int64_t steps) { return fmt::format("{}{:010}", kPrefix, steps); }

std::string side_name(std::int64_t steps, std::string_view what) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}-{}@{}", unit_name(steps), what, ::getpid(), ++count, host_name());
}

std::string lines_name(std::int64_t number) { return fmt::format("{}{}{}", kLinesPrefix, number, kLinesSuffix); }

std::optional<std::int64_t> parse_lines_name(std::string_view name) {
  constexpr std::size_t kAround = kLinesPrefix.size() + kLinesSuffix.size(), kMaxDigits = 12;
  if (name.size() <= kAround || name.size() > kAround + kMaxDigits) return std::nullopt;
  const auto number = parse_number<std::int64_t>(name.substr(kLinesPrefix.size(), name.size() - kAround));
  return number && *number >= 0 && name == lines_name(*number) ? number : std::nullopt;
}

std::vector<StoreEntry> store_entries(FileSystem& files, const std::string& dir) {
  std::vector<std::string> names;
  unless_gone([&] { names = files.list(dir); });
  const std::string host = host_name();
  std::vector<StoreEntry> entries;
  for (const std::string& name : names) {
    if (auto entry = parse_name(name, host)) entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, [](const StoreEntry& each) { return std::tie(each.steps, each.kind, each.name); });
  return entries;
}

}  // namespace giro::detail
