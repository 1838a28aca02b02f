#include <giro/loop/log/log_schema.h>

#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <mutex>
#include <unordered_map>

#include <giro/runtime/not_copied.h>

#include "runtime/throw_error.h"

namespace giro {

bool LogSchema::Key::has_path(std::string_view path) const noexcept {
  return path.size() == collection.size() + 1 + name.size() && path.starts_with(collection) &&
         path[collection.size()] == '.' && path.ends_with(name);
}

// A sequence of names; each schema that holds the branch uses a prefix of it. Schemas that continue differently after a
// prefix get their own branch, which begins with a copy of the prefix. The parent branch keeps track of it, so equal
// sequences of names are always on the same branch. A branch lives as long as a schema or a child branch holds it.
class LogSchema::Branch : detail::NotCopied {
 public:
  using Name = std::pair<std::string_view, std::string_view>;

  static const std::shared_ptr<Branch>& root() {
    // Never destroyed: logs may be made while the program ends.
    static const auto& root = *new std::shared_ptr<Branch>(std::make_shared<Branch>(nullptr, 0));
    return root;
  }

  Branch(std::shared_ptr<Branch> parent, std::size_t left_at) : parent_(std::move(parent)), left_at_(left_at) {
    for (std::size_t i = 0; i < left_at; ++i) append(parent_->name_of(i), parent_->entry(i).role);
  }
  ~Branch() {
    if (!parent_knows_) return;
    const std::lock_guard lock(parent_->mutex_);
    const auto known = parent_->later_.find(fork());
    // Another branch may have taken this place.
    if (known != parent_->later_.end() && known->second.expired()) parent_->later_.erase(known);
  }

  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  struct Entry {
    Key key;
    Role role;

    bool is(const Name& name, const Role& other) const noexcept {
      return role == other && key.is(name.first, name.second);
    }
  };
  const Entry& entry(std::size_t i) const noexcept {
    const auto [chunk, offset] = slot_of(i);
    return chunks_[chunk][offset];
  }

  // The branch in which this name follows the first `size` names of `self`.
  static std::shared_ptr<Branch> after(const std::shared_ptr<Branch>& self, std::size_t size, const Name& name,
                                       const Role& role) {
    std::shared_ptr<Branch> latest;  // outlives the lock, which a branch needs to end
    const std::lock_guard lock(self->mutex_);
    const bool is_root = self->parent_ == nullptr;
    if (!is_root && size == self->size()) self->append(name, role);
    if (size < self->size() && self->entry(size).is(name, role)) return self;
    // Logs usually begin like those before.
    latest = self->latest_.lock();
    if (latest && latest->left_at_ == size && latest->entry(size).is(name, role)) return latest;
    const auto known = self->later_.find({size, name, role});
    if (known != self->later_.end()) {
      self->latest_ = known->second;
      if (std::shared_ptr<Branch> later = known->second.lock()) return later;
      self->later_.erase(known);
    }
    const auto later = std::make_shared<Branch>(self, size);
    later->append(name, role);
    self->later_.emplace(later->fork(), later);
    later->parent_knows_ = true;
    return later;
  }

  std::optional<std::size_t> find(std::string_view collection, std::string_view name, std::size_t size) {
    const std::lock_guard lock(mutex_);
    for (; indexed_ < size; ++indexed_) index_.emplace(name_of(indexed_), indexed_);
    const auto found = index_.find(Name(collection, name));
    return found != index_.end() && found->second < size ? std::optional(found->second) : std::nullopt;
  }

 private:
  // The length of the shared prefix, and the first entry that differs: a view into the branch that begins there.
  struct Fork {
    std::size_t left_at;
    Name name;
    Role role;

    friend bool operator==(const Fork&, const Fork&) = default;
  };
  struct Hash {
    std::size_t operator()(const Name& name) const noexcept {
      const std::hash<std::string_view> hash;
      return hash(name.first) * 31 + hash(name.second);
    }
    std::size_t operator()(const Fork& fork) const noexcept { return (*this)(fork.name) * 31 + fork.left_at; }
  };
  struct Slot {
    std::size_t chunk, offset;
  };
  static constexpr std::size_t kFirstChunk = 4;

  // Chunk c holds kFirstChunk << c names. They never move, so existing names are read without a lock.
  static Slot slot_of(std::size_t i) noexcept {
    const auto chunk = static_cast<std::size_t>(std::bit_width(i / kFirstChunk + 1)) - 1;
    return {chunk, i - kFirstChunk * ((std::size_t{1} << chunk) - 1)};
  }
  Name name_of(std::size_t i) const noexcept { return {entry(i).key.collection, entry(i).key.name}; }
  Fork fork() const noexcept { return {left_at_, name_of(left_at_), entry(left_at_).role}; }
  void append(const Name& name, const Role& role) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    const auto [chunk, offset] = slot_of(size);
    if (offset == 0) chunks_[chunk] = std::make_unique<Entry[]>(kFirstChunk << chunk);
    chunks_[chunk][offset] = {{std::string(name.first), std::string(name.second)}, role};
    size_.store(size + 1, std::memory_order_release);
  }

  const std::shared_ptr<Branch> parent_;  // null for the root, which has no names
  const std::size_t left_at_;
  bool parent_knows_ = false;
  std::array<std::unique_ptr<Entry[]>, 48> chunks_;
  std::atomic<std::size_t> size_{0};
  std::mutex mutex_;
  std::unordered_map<Name, std::size_t, Hash> index_;  // of the first `indexed_` names
  std::size_t indexed_ = 0;
  std::unordered_map<Fork, std::weak_ptr<Branch>, Hash> later_;
  std::weak_ptr<Branch> latest_;  // the one of later_ that was found last
};

void LogSchema::add(std::string_view collection, std::string_view name, Role role) {
  if (!add_if_next(collection, name, role)) {
    branch_ = Branch::after(branch_ != nullptr ? branch_ : Branch::root(), size_, {collection, name}, role);
    ++size_;
  }
}

bool LogSchema::add_if_next(std::string_view collection, std::string_view name, Role role) noexcept {
  const bool is_next =
      branch_ != nullptr && size_ < branch_->size() && branch_->entry(size_).is({collection, name}, role);
  if (is_next) ++size_;
  return is_next;
}

const LogSchema::Key& LogSchema::operator[](std::size_t entry) const noexcept { return branch_->entry(entry).key; }
const LogSchema::Role& LogSchema::role(std::size_t entry) const noexcept { return branch_->entry(entry).role; }

LogSchema::Rule LogSchema::rule(std::size_t entry) const noexcept {
  return (*this)[entry].collection == "stateful_metrics" ? Rule::last : role(entry).rule;
}

nn::Direction LogSchema::direction(std::size_t entry) const noexcept {
  return (*this)[entry].collection == "losses" ? nn::Direction::lower : role(entry).direction;
}

std::vector<LogSchema::Parts> LogSchema::parts() const {
  std::vector<Parts> parts(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    const Role& of = role(i);
    if (of.part == Part::count) parts[of.metric].count = i;
    if (of.part == Part::mean) parts[of.metric].mean = i;
    if (of.part == Part::logarithm) parts[of.metric].logarithm = i;
  }
  return parts;
}

std::optional<std::size_t> LogSchema::find(std::string_view collection, std::string_view name) const {
  constexpr std::size_t kFew = 8;  // up to here a linear search is faster
  if (size_ > kFew) return branch_->find(collection, name, size_);
  for (std::size_t i = 0; i < size_; ++i) {
    if (branch_->entry(i).key.is(collection, name)) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> LogSchema::find(std::string_view key) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < size_; ++i) {
    const Key& entry = (*this)[i];
    if (entry.has_path(key)) return i;
    if (entry.name != key) continue;
    if (found) {
      throw_invalid("'{}' is in several collections: '{}' and '{}'", key, (*this)[*found].path(), entry.path());
    }
    found = i;
  }
  return found;
}

}  // namespace giro
