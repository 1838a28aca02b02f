#include "callbacks/run_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include <giro/runtime/error.h>

namespace giro::detail {
namespace {

std::string canonical(const std::string& dir) {
  try {
    // Drops a trailing slash.
    return (std::filesystem::weakly_canonical(dir) / "").parent_path().string();
  } catch (const std::filesystem::filesystem_error&) {
    return dir;  // using it will report the error
  }
}

}  // namespace

void RunCheckpoints::add(const std::string& dir, const CheckpointStoreOptions& options, bool is_best,
                         const std::shared_ptr<CheckpointStore>& store) {
  directories_.push_back({canonical(dir), options, is_best, store});
}

void RunCheckpoints::set_best(const std::string& dir, const CheckpointStoreOptions& options) {
  for (Directory& directory : directories_) {
    if (directory.is_best && directory.dir == canonical(dir)) directory.options = options;
  }
}

void RunCheckpoints::set_saving(const std::string& dir, std::int64_t steps) {
  for (Directory& directory : directories_) {
    if (directory.dir == canonical(dir)) directory.saving = steps;
  }
}

std::vector<std::int64_t> RunCheckpoints::resumable() const {
  std::vector<std::int64_t> steps;
  for (const Directory& directory : directories_) {
    if (directory.is_best) continue;
    const std::shared_ptr<CheckpointStore> store = directory.store.lock();
    const std::int64_t latest = store
                                    ? store->latest_steps()
                                    : CheckpointStore(directory.dir, {.files = directory.options.files}).latest_steps();
    steps.push_back(latest >= 0 ? latest : begin_);
    if (directory.saving > latest) steps.push_back(directory.saving);
  }
  return steps;
}

std::vector<std::shared_ptr<CheckpointStore>> RunCheckpoints::best_stores() const {
  std::vector<std::shared_ptr<CheckpointStore>> stores;
  for (const Directory& directory : directories_) {
    if (const auto store = directory.store.lock(); store && directory.is_best) stores.push_back(store);
  }
  return stores;
}

void RunCheckpoints::wait(const std::string& dir) {
  const std::string wanted = canonical(dir);
  for (const Directory& directory : directories_) {
    if (directory.dir != wanted) continue;
    if (const auto store = directory.store.lock()) store->wait();
  }
}

void RunCheckpoints::prune(std::int64_t steps) {
  for (const Directory& directory : directories_) {
    const bool is_best = directory.is_best;
    const bool has_best = std::any_of(directories_.begin(), directories_.end(), [&](const Directory& other) {
      return other.dir == directory.dir && other.is_best;
    });
    if (has_best && !is_best) continue;
    if (is_best && directory.options.monitor.empty()) continue;
    const std::shared_ptr<CheckpointStore> store = shared_store(directory.dir, directory.options, this);
    if (store->latest_steps() < 0 || store->latest_steps() > steps) continue;
    CheckpointStoreOptions options = directory.options;
    if (is_best) options.resumable = resumable();
    store->set_keep(options);
    try {
      store->acquire();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      continue;  // another process is writing there by now, and prunes
    }
    store->prune();
  }
}

std::shared_ptr<CheckpointStore> shared_store(const std::string& dir, const CheckpointStoreOptions& options,
                                              const RunCheckpoints* run) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, FileSystem*, const RunCheckpoints*>, std::weak_ptr<CheckpointStore>> stores;
  const std::string path = canonical(dir);
  const std::lock_guard lock(mutex);
  std::erase_if(stores, [](const auto& entry) { return entry.second.expired(); });
  const auto of = [&](const RunCheckpoints* other) { return std::tuple(path, options.files.get(), other); };
  if (const auto known = stores.find(of(run)); known != stores.end()) {
    if (auto store = known->second.lock()) return store;
  }
  std::shared_ptr<CheckpointStore> store;
  const auto by_hand = stores.find(of(nullptr));
  const bool is_alone = std::none_of(stores.begin(), stores.end(), [&](const auto& entry) {
    return std::get<0>(entry.first) == path && std::get<2>(entry.first) != nullptr;
  });
  if (by_hand != stores.end() && is_alone) {
    // With a separate reference count, so that the map drops it once the run releases it.
    if (auto held = by_hand->second.lock()) store.reset(held.get(), [held](CheckpointStore*) {});
  }
  if (!store) store = std::make_shared<CheckpointStore>(dir, options);
  stores[of(run)] = store;
  return store;
}

}  // namespace giro::detail
