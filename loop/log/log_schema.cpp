#include <giro/loop/log/log_schema.h>

#include <algorithm>
#include <mutex>

namespace giro {

bool LogSchema::Key::has_path(std::string_view path) const noexcept {
  return path.size() == collection.size() + 1 + name.size() && path.starts_with(collection) &&
         path[collection.size()] == '.' && path.ends_with(name);
}

const LogSchema& LogSchema::empty() {
  // Never destroyed: logs may be made while the program ends.
  static const LogSchema& schema = *new LogSchema;
  return schema;
}

LogSchema::LogSchema(const LogSchema& shorter, std::string_view collection, std::string_view name)
    : last_{std::string(collection), std::string(name)}, keys_(shorter.keys_) {
  keys_.push_back(&last_);
}

const LogSchema& LogSchema::with(std::string_view collection, std::string_view name) const {
  if (const LogSchema* known = find_longer(collection, name)) return *known;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const LogSchema* known = find_longer(collection, name)) return *known;
  auto* longer = new LogSchema(*this, collection, name);
  longer->next_ = longer_.load(std::memory_order_relaxed);
  longer_.store(longer, std::memory_order_release);
  return *longer;
}

const LogSchema* LogSchema::find_longer(std::string_view collection, std::string_view name) const noexcept {
  const LogSchema* longer = longer_.load(std::memory_order_acquire);
  while (longer != nullptr && (longer->last_.name != name || longer->last_.collection != collection)) {
    longer = longer->next_;
  }
  return longer;
}

std::optional<std::size_t> LogSchema::find(std::string_view collection, std::string_view name) const noexcept {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const Key* key) { return key->name == name && key->collection == collection; });
  if (found == keys_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - keys_.begin());
}

}  // namespace giro
