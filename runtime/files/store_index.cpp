#include "runtime/files/store_index.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string_view>

#include <giro/runtime/error.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/kept_checkpoints.h"
#include "runtime/files/store_names.h"

namespace giro::detail {

using Item = StoredCheckpoints::Item;

StoreIndex::Known& StoreIndex::known() {
  if (known_ && !known_->items.empty() &&
      files_.status(path_of(dir_, known_->items.back().entry.name)).kind == FileSystem::Kind::none) {
    forget();  // somebody has removed it, and perhaps others
  }
  if (known_) return *known_;
  Known found{stored_checkpoints(files_, dir_), store_entries(files_, dir_), {}};
  std::erase_if(found.ahead, [](const StoreEntry& entry) { return entry.kind != StoreEntryKind::ahead; });
  for (const std::string& name : files_.list(dir_)) {
    if (parse_lines_name(name)) found.lines.insert(name);
  }
  keep(std::move(found));
  return *known_;
}

void StoreIndex::keep(Known known) {
  known_ = std::move(known);
  const bool is_latest_known = known_->unreadable.empty() && !known_->items.empty() &&
                               known_->items.back().entry.kind == StoreEntryKind::checkpoint;
  latest_ = is_latest_known ? known_->items.back().entry.steps : kUnknown;
}

void StoreIndex::forget() noexcept {
  known_.reset();
  latest_ = kUnknown;
}

std::optional<std::int64_t> StoreIndex::latest_steps() const noexcept {
  const std::int64_t steps = latest_;
  return steps == kUnknown ? std::nullopt : std::optional(steps);
}

void StoreIndex::add(Item item) {
  if (!known_) return;
  if (!known_->unreadable.empty()) return forget();  // it may have replaced one of them
  std::deque<Item>& items = known_->items;
  const auto [first, last] =
      std::ranges::equal_range(items, item.entry.steps, {}, [](const Item& each) { return each.entry.steps; });
  known_->lines.insert(item.lines.begin(), item.lines.end());
  items.insert(items.erase(first, last), std::move(item));
  latest_ = items.back().entry.steps;
}

void StoreIndex::prune(std::int64_t steps, const CheckpointStoreOptions& options,
                       const std::function<bool(const std::string& lines)>& in_use) {
  Known now = std::move(known());
  forget();  // until all is done
  for (const Error& error : now.unreadable) {
    if (error.code() == ErrorCode::io) throw error;  // it may be one to remove
  }
  std::vector<std::string> trash;
  const std::vector<std::size_t> superseded = detail::superseded(now.items, steps, options);
  for (const std::size_t i : std::views::reverse(superseded)) {
    const Item& item = now.items[i];
    if (item.entry.kind == StoreEntryKind::old) continue;  // it belongs to another host
    const std::string aside = path_of(dir_, side_name(item.entry.steps, "trash"));
    if (unless_gone([&] { files_.rename(item.stored.path, aside); })) trash.push_back(aside);
    now.items.erase(now.items.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (!trash.empty()) files_.sync_directory(dir_);
  for (const StoreEntry& entry : now.ahead) {
    if (entry.steps <= steps) trash.push_back(path_of(dir_, entry.name));
  }
  std::erase_if(now.ahead, [&](const StoreEntry& entry) { return entry.steps <= steps; });
  for (const std::string& path : trash) remove_all(files_, path);

  if (!now.unreadable.empty()) return;  // they may refer to any lines
  std::set<std::string_view> referenced;
  for (const Item& item : now.items) referenced.insert(item.lines.begin(), item.lines.end());
  std::erase_if(now.lines, [&](const std::string& name) {
    if (referenced.contains(name) || in_use(name)) return false;
    unless_gone([&] { files_.remove(path_of(dir_, name)); });
    return true;
  });
  keep(std::move(now));
}

}  // namespace giro::detail
