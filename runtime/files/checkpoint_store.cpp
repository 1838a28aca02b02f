#include <giro/runtime/files/checkpoint_store.h>

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/span.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/kept_checkpoints.h"
#include "runtime/files/line_files.h"
#include "runtime/files/manifest.h"
#include "runtime/files/shard_files.h"
#include "runtime/files/shard_group.h"
#include "runtime/files/store_index.h"
#include "runtime/files/store_names.h"
#include "runtime/files/stored_checkpoints.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::StoreEntryKind, detail::StoredCheckpoints;
using Item = StoredCheckpoints::Item;

void check_mode(const std::string& dir, const std::string& mode) {
  if (mode == "min" || mode == "max") return;
  throw_invalid("checkpoint store '{}': mode is '{}', expected 'min' or 'max'", dir, mode);
}

void check_keep(const std::string& dir, const CheckpointStoreOptions& options) {
  if (!options.monitor.empty()) check_mode(dir, options.mode);
  if (options.keep >= 1 && options.keep_every_n_steps >= 0) return;
  throw_invalid("checkpoint store '{}': keep is {}, keep_every_n_steps is {}, expected at least 1 and 0", dir,
                options.keep, options.keep_every_n_steps);
}

void check_group(const std::string& dir, const SaveGroup& group) {
  const auto& [index, count] = group.shard;
  if (count >= 1 && index >= 0 && index < count) return;
  throw_invalid("checkpoint store '{}': there is no shard {} of {}", dir, index, count);
}

// Without a group nothing would save the other pieces.
void check_pieces(const std::string& dir, const std::vector<Leaf>& leaves, const Shard& shard) {
  if (shard.count > 1) return;
  for (const Leaf& leaf : leaves) {
    if (!leaf.piece) continue;
    throw_invalid(
        "checkpoint '{}': of leaf '{}', this process holds {} elements of {}; expected a save group of all processes "
        "that hold some",
        dir, leaf.path, leaf.value.count(), to_string(leaf.piece->whole));
  }
}

}  // namespace

struct CheckpointStore::Impl {
  Impl(std::string dir, CheckpointStoreOptions options)
      : dir(std::move(dir)),
        options(std::move(options)),
        files(*this->options.files),
        group(this->options.group, files),
        line_files(files, this->dir),
        index(files, this->dir) {}
  ~Impl() {
    if (under_way.valid()) under_way.wait();
  }

  std::string dir;
  CheckpointStoreOptions options;
  FileSystem& files;
  detail::ShardGroup group;
  detail::LineFiles line_files;
  std::map<std::string, std::size_t> passed_lines;  // saved by shard 0, for the other shards
  detail::StoreIndex index;                         // of the writer
  bool is_settled = false;                          // whether nothing unfinished is left in the directory
  std::unique_ptr<FileSystem::Lock> lock;
  std::shared_future<void> under_way;

  std::string path_of(std::string_view name) const { return detail::path_of(dir, name); }
  bool is_writer() const { return group.shard().index == 0; }

  void acquire() {
    if (lock || !is_writer()) return;
    detail::create_durable_directory(files, dir);
    lock = detail::lock_for_writing(files, path_of(detail::kLockName), dir);
  }

  // Call this before changing the directory in any way but a save. Returns false for shards other than 0, which do not
  // change it.
  bool prepare() {
    wait();
    if (!is_writer()) return false;
    acquire();
    index.forget();
    recover_unfinished_saves();
    is_settled = true;
    return true;
  }

  // Finishes or undoes saves that this process or dead ones left unfinished. `current` is a directory that other shards
  // may be writing to already.
  void recover_unfinished_saves(std::string_view current = {}) {
    std::vector<detail::StoreEntry> left = detail::store_entries(files, dir);
    std::erase_if(left, [&](const detail::StoreEntry& entry) {
      return !entry.of_this_host || entry.kind == StoreEntryKind::checkpoint || entry.kind == StoreEntryKind::ahead ||
             entry.name == current;
    });
    if (left.empty()) return;
    for (const detail::StoreEntry& entry : left) {
      const std::string unit = path_of(detail::unit_name(entry.steps));
      if (entry.kind == StoreEntryKind::old && files.status(unit).kind == FileSystem::Kind::none) {
        files.rename(path_of(entry.name), unit);
      }
    }
    files.sync_directory(dir);  // a replacement must be durable before anything is removed
    for (const detail::StoreEntry& entry : left) {
      const std::string path = path_of(entry.name);
      if (files.status(path).kind != FileSystem::Kind::none) detail::remove_all(files, path);
    }
  }

  // Durably writes all files of a checkpoint; commit() gives it its name.
  Item write_unit(const std::string& unit, const std::vector<Leaf>& leaves, const CheckpointRecord& record,
                  const Archive& archive) {
    detail::Manifest manifest{.record = record, .memory = archive.text()};
    files.create_directories(unit);
    manifest.lines = line_files.append(archive.lines());
    manifest.files = detail::write_leaves(files, unit, leaves, archive.arrays());
    if (group) {
      const auto own = detail::write_leaves(files, unit, leaves, archive.arrays(), group.shard());
      for (const auto& shards : {own, group.receive(unit)}) {
        manifest.files.insert(manifest.files.end(), shards.begin(), shards.end());
      }
    }
    const std::string name = detail::unit_name(record.steps);
    Item item{{record.steps, StoreEntryKind::checkpoint, name}, {path_of(name), manifest.version, record}, {}};
    for (const detail::Manifest::Lines& lines : manifest.lines) item.lines.push_back(lines.name);
    const std::string text = detail::manifest_text(std::move(manifest));
    detail::write_durably(*files.create(detail::path_of(unit, detail::kManifestName)), text);
    if (group) group.remove_receipts(unit);
    files.sync_directory(unit);
    return item;
  }

  // Renames the unit, which makes it a checkpoint.
  void commit(const std::string& unit, std::int64_t steps) {
    const std::string name = path_of(detail::unit_name(steps)), old = path_of(detail::side_name(steps, "old"));
    const bool replaces = files.status(name).kind != FileSystem::Kind::none;
    if (replaces)
      files.rename(name, old);  // it can still be loaded there; recover_unfinished_saves() restores it if necessary
    files.rename(unit, name);
    group.set_named();
    files.sync_directory(dir);
    if (replaces) detail::remove_all(files, old);
  }

  void save(const Snapshot& snapshot, const CheckpointRecord& record, const Archive& archive, const std::string& id) {
    const Span span("checkpoint", "save a checkpoint", "step", record.steps);
    detail::check_record(record, ErrorCode::invalid_argument, fmt::format("checkpoint '{}'", dir));
    check_pieces(dir, snapshot.leaves(), group.shard());
    check_pieces(dir, archive.arrays(), group.shard());
    group.begin(id);
    if (!is_writer()) return save_shard(snapshot, record.steps, archive);
    acquire();
    const std::string name = group.unit_name(record.steps);
    const bool was_settled = std::exchange(is_settled, false);
    if (!was_settled) index.forget();
    if (!was_settled || group) recover_unfinished_saves(name);  // another shard may have begun what it did not finish
    snapshot.wait();
    if (!group || !group.is_named()) {
      write_and_commit(path_of(name), snapshot, record, archive);
    } else {
      files.sync_directory(dir);  // an earlier attempt may have failed before this
    }
    line_files.keep_new();
    prune(record.steps);
    is_settled = true;
  }

  void write_and_commit(const std::string& unit, const Snapshot& snapshot, const CheckpointRecord& record,
                        const Archive& archive) {
    try {
      Item item = write_unit(unit, snapshot.leaves(), record, archive);
      commit(unit, record.steps);
      index.add(std::move(item));
    } catch (...) {
      line_files.forget();
      detail::ignore_errors([&] {
        if (files.status(unit).kind == FileSystem::Kind::none) return;  // already renamed
        if (!group) detail::remove_all(files, unit);  // else keep other shards' files for another attempt
        line_files.remove_new();
      });
      throw;
    }
  }

  // save() for shards other than 0.
  void save_shard(const Snapshot& snapshot, std::int64_t steps, const Archive& archive) {
    snapshot.wait();
    const std::string unit = path_of(group.unit_name(steps));
    files.create_directories(unit);
    const std::vector<detail::Manifest::File> written =
        detail::write_leaves(files, unit, snapshot.leaves(), archive.arrays(), group.shard());
    files.sync_directory(unit);
    group.send(unit, written);
    for (const auto& [path, lines] : archive.lines()) passed_lines[path] = lines.count;
  }

  void prune(std::int64_t steps) {
    index.prune(steps, options, [&](const std::string& lines) { return line_files.uses(lines); });
  }

  void wait() {
    if (under_way.valid()) std::exchange(under_way, {}).get();
  }
};

CheckpointStore::CheckpointStore(std::string dir, CheckpointStoreOptions options) {
  if (dir.empty()) throw_invalid("checkpoint store: the directory's name is empty");
  check_keep(dir, options);
  check_group(dir, options.group);
  impl_ = std::make_shared<Impl>(std::move(dir), std::move(options));
}

CheckpointStore::Impl& CheckpointStore::impl() const {
  if (!impl_) throw_invalid("checkpoint store: it was moved from");
  return *impl_;
}
const std::string& CheckpointStore::dir() const { return impl().dir; }
std::string CheckpointStore::writer() const {
  return detail::lock_holder(impl().files, impl().path_of(detail::kLockName));
}
void CheckpointStore::set_keep(CheckpointStoreOptions options) {
  check_keep(dir(), options);
  impl().wait();
  std::swap(options.files, impl().options.files);  // keeps the file system; impl().group is the group
  std::swap(impl().options, options);
}
void CheckpointStore::begin_run() {
  impl().wait();
  impl().line_files.forget();
  impl().passed_lines.clear();
}
FileSystem& CheckpointStore::files() const { return impl().files; }

std::vector<StoredCheckpoint> CheckpointStore::all(std::vector<std::string>* unreadable) const {
  StoredCheckpoints stored = detail::stored_checkpoints(impl().files, impl().dir);
  if (unreadable != nullptr) {
    unreadable->clear();
    for (const Error& error : stored.unreadable) unreadable->push_back(error.what());
  }
  std::vector<StoredCheckpoint> all;
  for (Item& item : stored.items) all.push_back(std::move(item.stored));
  return all;
}

std::int64_t CheckpointStore::latest_steps() const {
  if (const auto known = impl().index.latest_steps()) return *known;
  std::int64_t steps = -1;
  for (const detail::StoreEntry& entry : detail::store_entries(impl().files, impl().dir)) {
    if (entry.kind == StoreEntryKind::checkpoint) steps = std::max(steps, entry.steps);
  }
  return steps;
}

std::optional<StoredCheckpoint> CheckpointStore::latest() const {
  return detail::newest_checkpoint(impl().files, impl().dir);
}

std::optional<StoredCheckpoint> CheckpointStore::best(const std::string& monitor, const std::string& mode) const {
  check_mode(dir(), mode);
  std::optional<StoredCheckpoint> best;
  for (StoredCheckpoint& stored : all()) {
    const bool is_best = detail::is_better(stored.record, best ? best->record : CheckpointRecord(), monitor, mode);
    if (is_best) best = std::move(stored);
  }
  return best;
}

void CheckpointStore::acquire() { impl().acquire(); }
void CheckpointStore::wait() { impl().wait(); }

void CheckpointStore::check_writable(std::int64_t bytes_per_checkpoint) {
  if (bytes_per_checkpoint < 0) {
    throw_invalid("checkpoint store '{}': {} bytes per checkpoint, expected at least 0", dir(), bytes_per_checkpoint);
  }
  if (!impl().prepare()) return;
  FileSystem& files = impl().files;
  const auto stored = static_cast<std::int64_t>(impl().index.size());
  const std::int64_t more = std::max<std::int64_t>(impl().options.keep - stored, 0) + 1;
  const double needed = static_cast<double>(more) * static_cast<double>(bytes_per_checkpoint);
  const std::uint64_t free = files.free_bytes(impl().dir);
  if (needed > static_cast<double>(free)) {
    throw_error(ErrorCode::io, "'{}': {} more checkpoints of {} bytes need {:.0f} bytes, but {} are free", impl().dir,
                more, bytes_per_checkpoint, needed, free);
  }
  const std::string trial = impl().path_of(detail::side_name(0, "tmp"));
  try {
    detail::write_durably(*files.create(trial), std::string(std::size_t{1} << 16, 'x'));
  } catch (...) {
    detail::ignore_errors([&] { files.remove(trial); });
    throw;
  }
  files.remove(trial);
}

Archive CheckpointStore::archive() {
  impl().wait();
  if (!impl().is_writer()) return Archive(impl().passed_lines);
  return Archive(impl().line_files.kept());
}

void CheckpointStore::save(const Snapshot& snapshot, const CheckpointRecord& record, Archive archive,
                           const std::string& id) {
  impl().wait();
  impl().save(snapshot, record, archive, id);
}

void CheckpointStore::save_async(std::shared_ptr<const Snapshot> snapshot, const CheckpointRecord& record,
                                 Archive archive, const std::string& id,
                                 const std::vector<std::shared_ptr<CheckpointStore>>& others) {
  impl().wait();
  std::vector<std::shared_future<void>> before;
  for (const auto& other : others) before.push_back(other->impl().under_way);
  impl().under_way = std::async(std::launch::async, [&impl = impl(), snapshot = std::move(snapshot), record,
                                                     archive = std::move(archive), id, before = std::move(before)] {
                       for (const auto& save : before) save.valid() ? save.get() : void();
                       impl.save(*snapshot, record, archive, id);
                     }).share();
}

std::vector<std::string> CheckpointStore::set_aside(std::int64_t steps) {
  std::vector<std::string> aside;
  if (!impl().prepare()) return aside;
  for (const detail::StoreEntry& entry : detail::store_entries(files(), dir())) {
    if (entry.steps <= steps || entry.kind > StoreEntryKind::checkpoint) continue;
    std::string& name = aside.emplace_back();
    do {  // a dead process with the same process id may have used the name
      name = impl().path_of(detail::side_name(entry.steps, "ahead"));
    } while (files().status(name).kind != FileSystem::Kind::none);
    files().rename(impl().path_of(entry.name), name);
  }
  if (!aside.empty()) files().sync_directory(dir());
  return aside;
}

void CheckpointStore::prune() {
  if (!impl().prepare()) return;
  if (const auto newest = latest()) impl().prune(newest->record.steps);
}

}  // namespace giro
