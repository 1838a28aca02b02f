#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/file_system.h>

#include "tests/support/memory_reader.h"

namespace giro::test {

// A file system in memory that tracks what is durable: a file's content up to its last sync, and a directory's names up
// to its last sync_directory. after_power_loss() returns what a disk might hold if the power failed now. Whatever was
// not synced may be lost: the end of a file may be cut off or zero, and each change of a directory may be missing. Like
// FaultyFileSystem, it also records calls and injects faults.
class PowerLossFileSystem final : public FileSystem {
 public:
  std::vector<std::string> calls;  // such as "rename /logs/model/checkpoint_0000000001"
  std::size_t fail_at = 0;         // the number of the failing call, counted from 1
  bool crash = false;              // every later call fails too, as if the process had died
  std::size_t ignore = 0;          // the number of a sync, sync_directory or rename that does nothing
  std::function<void()> before_call;

  std::shared_ptr<PowerLossFileSystem> after_power_loss(std::uint32_t seed) const {
    auto disk = std::make_shared<PowerLossFileSystem>();
    std::mt19937 random(seed);
    disk->root_ = lose(*root_, random, static_cast<Loss>(std::min(seed % 8, 3u)));
    return disk;
  }

  // A copy that keeps track of what is durable.
  std::shared_ptr<PowerLossFileSystem> copy() const {
    auto disk = std::make_shared<PowerLossFileSystem>();
    std::map<const Node*, std::shared_ptr<Node>> copies;
    disk->root_ = copy(root_, copies);
    return disk;
  }

  // All names and contents, except entries with one of `unseen` in their names.
  std::string everything(const std::vector<std::string>& unseen = {}) const {
    std::string text;
    describe(*root_, unseen, text);
    return text;
  }

  // A file's content, to read or damage.
  std::string& content(const std::string& path) { return find(path, Kind::file).data; }

  std::unique_ptr<Writer> create(const std::string& path) override {
    enter("create", path);
    auto node = std::make_shared<Node>();
    change(path, node);
    return std::make_unique<MemoryWriter>(*this, path, node);
  }
  std::unique_ptr<Writer> append(const std::string& path) override {
    enter("append", path);
    std::shared_ptr<Node> node = lookup(path);
    if (!node) change(path, node = std::make_shared<Node>());
    return std::make_unique<MemoryWriter>(*this, path, node);
  }
  std::unique_ptr<Reader> open(const std::string& path) override {
    enter("read", path);
    return std::make_unique<MemoryReader>(std::make_shared<std::string>(find(path, Kind::file).data));
  }
  Status status(const std::string& path) override {
    enter("status", path);
    const std::shared_ptr<Node> node = lookup(path);
    return node ? Status{node->kind, node->data.size()} : Status{};
  }
  void rename(const std::string& from, const std::string& to) override {
    if (!enter("rename", to)) return;
    const std::shared_ptr<Node> node = lookup(from), there = lookup(to);
    if (!node) throw Error(ErrorCode::not_found, "no '" + from + "'");
    if (there && (there->kind != node->kind || !there->entries.empty())) throw Error(ErrorCode::io, "'" + to + "'");
    if (parent_of(from) != parent_of(to)) throw Error(ErrorCode::unsupported, "rename between directories");
    change(to, node, leaf_of(from));
  }
  void remove(const std::string& path) override {
    enter("remove", path);
    const std::shared_ptr<Node> node = lookup(path);
    if (!node) throw Error(ErrorCode::not_found, "no '" + path + "'");
    if (!node->entries.empty()) throw Error(ErrorCode::io, "'" + path + "' is not empty");
    change(path, nullptr);
  }
  void create_directories(const std::string& path) override {
    enter("create_directories", path);
    const std::string parent = parent_of(path);
    if (!lookup(parent)) create_directories(parent);
    if (lookup(path)) return;
    auto node = std::make_shared<Node>();
    node->kind = Kind::directory;
    change(path, node);
  }
  void sync_directory(const std::string& path) override {
    if (!enter("sync_directory", path)) return;
    Node& node = find(path, Kind::directory);
    node.durable_entries = node.entries;
    node.pending.clear();
  }
  std::vector<std::string> list(const std::string& path) override {
    enter("list", path);
    std::vector<std::string> names;
    for (const auto& [name, entry] : find(path, Kind::directory).entries) names.push_back(name);
    return names;
  }
  std::unique_ptr<Lock> lock(const std::string& path, const std::string& holder) override {
    enter("lock", path);
    std::shared_ptr<Node> node = lookup(path);
    if (!node) change(path, node = std::make_shared<Node>());
    if (!node->lock.expired()) return nullptr;
    node->data = holder;
    auto held = std::make_shared<int>();
    node->lock = held;
    return std::make_unique<MemoryLock>(std::move(held));
  }
  std::uint64_t free_bytes(const std::string& path) override {
    enter("free_bytes", path);
    return std::uint64_t{1} << 30;
  }

 private:
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  struct Change {  // an atomic change of a directory
    std::string gone, name;
    std::shared_ptr<Node> node;  // null: `name` is removed
  };
  struct Node {
    Kind kind = Kind::file;
    std::string data, durable;
    Entries entries, durable_entries;
    std::vector<Change> pending;  // changes from the durable entries to the present ones
    std::weak_ptr<int> lock;
  };
  enum class Loss { everything, nothing, latest, any };

  class MemoryWriter final : public Writer {
   public:
    MemoryWriter(PowerLossFileSystem& owner, std::string path, std::shared_ptr<Node> node)
        : owner_(owner), path_(std::move(path)), node_(std::move(node)) {}
    void write(const void* data, std::size_t bytes) override {
      try {
        owner_.enter("write", path_);
      } catch (const Error&) {
        if (!owner_.dead()) node_->data.append(static_cast<const char*>(data), bytes / 2);
        throw;
      }
      node_->data.append(static_cast<const char*>(data), bytes);
    }
    void sync() override {
      if (owner_.enter("sync", path_)) node_->durable = node_->data;
    }
    void close() override { owner_.enter("close", path_); }

   private:
    PowerLossFileSystem& owner_;
    std::string path_;
    std::shared_ptr<Node> node_;
  };
  struct MemoryLock final : Lock {
    explicit MemoryLock(std::shared_ptr<int> held) : held(std::move(held)) {}
    std::shared_ptr<int> held;
  };

  static std::string parent_of(const std::string& path) {
    return std::filesystem::path(path).lexically_normal().parent_path().string();
  }
  static std::string leaf_of(const std::string& path) {
    return std::filesystem::path(path).lexically_normal().filename().string();
  }

  bool dead() const { return crash && fail_at > 0 && calls.size() > fail_at; }
  // Returns whether to execute the call.
  bool enter(const std::string& call, const std::string& path) {
    calls.push_back(call + " " + path);
    if (const auto hook = before_call) hook();  // a copy: the hook may replace itself
    if (calls.size() == fail_at || dead()) throw Error(ErrorCode::io, "injected: " + calls.back());
    return calls.size() != ignore;
  }

  std::shared_ptr<Node> lookup(const std::string& path) const {
    std::shared_ptr<Node> node = root_;
    for (const std::filesystem::path& part : std::filesystem::path(path).lexically_normal().relative_path()) {
      if (part.empty() || part == ".") continue;
      const auto found = node->entries.find(part.string());
      if (found == node->entries.end()) return nullptr;
      node = found->second;
    }
    return node;
  }
  Node& find(const std::string& path, Kind kind) const {
    const std::shared_ptr<Node> node = lookup(path);
    if (!node) throw Error(ErrorCode::not_found, "no '" + path + "'");
    if (node->kind != kind) throw Error(ErrorCode::io, "'" + path + "' is of another kind");
    return *node;
  }
  void change(const std::string& path, std::shared_ptr<Node> node, const std::string& gone = "") {
    Node& directory = find(parent_of(path), Kind::directory);
    directory.pending.push_back({gone, leaf_of(path), std::move(node)});
    apply(directory.pending.back(), directory.entries);
  }
  static void apply(const Change& change, Entries& entries) {
    if (!change.gone.empty()) entries.erase(change.gone);
    if (change.node) {
      entries[change.name] = change.node;
    } else {
      entries.erase(change.name);
    }
  }

  static std::shared_ptr<Node> lose(const Node& node, std::mt19937& random, Loss loss) {
    auto left = std::make_shared<Node>();
    left->kind = node.kind;
    left->data = left->durable = loss == Loss::nothing ? node.data : node.durable;
    if (loss == Loss::any || loss == Loss::latest) {
      const std::size_t more = node.data.size() - std::min(node.data.size(), node.durable.size());
      left->data = node.data.substr(0, node.durable.size() + random() % (more + 1));
      if (random() % 2 == 0) left->data.resize(node.data.size());  // padded with zeros
      left->durable = left->data;
    }
    Entries entries = node.durable_entries;
    const std::size_t first = random() % (node.pending.size() + 1);
    for (std::size_t i = 0; i < node.pending.size(); ++i) {
      const bool stays =
          loss == Loss::nothing || (loss == Loss::latest && i < first) || (loss == Loss::any && random() % 2 == 0);
      if (stays) apply(node.pending[i], entries);
    }
    for (const auto& [name, entry] : entries) left->entries[name] = lose(*entry, random, loss);
    left->durable_entries = left->entries;
    return left;
  }
  // A node may be in several places: among the present, the durable and the pending entries.
  static std::shared_ptr<Node> copy(const std::shared_ptr<Node>& node,
                                    std::map<const Node*, std::shared_ptr<Node>>& copies) {
    if (!node) return nullptr;
    std::shared_ptr<Node>& made = copies[node.get()];
    if (made) return made;
    const auto result = made = std::make_shared<Node>(*node);
    result->lock.reset();
    for (auto& [name, entry] : result->entries) entry = copy(entry, copies);
    for (auto& [name, entry] : result->durable_entries) entry = copy(entry, copies);
    for (Change& change : result->pending) change.node = copy(change.node, copies);
    return result;
  }
  static void describe(const Node& node, const std::vector<std::string>& unseen, std::string& text) {
    text += node.data + "(";
    for (const auto& [name, entry] : node.entries) {
      const auto is_in = [&, &name = name](const std::string& part) { return name.find(part) != std::string::npos; };
      if (std::any_of(unseen.begin(), unseen.end(), is_in)) continue;
      text += name + ":";
      describe(*entry, unseen, text);
    }
    text += ")";
  }
  static std::shared_ptr<Node> make_root() {
    auto root = std::make_shared<Node>();
    root->kind = Kind::directory;
    return root;
  }

  std::shared_ptr<Node> root_ = make_root();
};

}  // namespace giro::test
