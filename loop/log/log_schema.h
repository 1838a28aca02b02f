#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The names of the entries of a Logs, in order. There is one of a kind: logs with the same entries in the same order
// share a schema, so comparing addresses compares names. It lives as long as the program. May be used by several
// threads.
class LogSchema {
 public:
  struct Key {
    std::string collection;
    std::string name;

    std::string path() const { return collection + "." + name; }
    // Whether `path` is path(), without making it.
    bool has_path(std::string_view path) const noexcept;
  };

  // Of no entries.
  static const LogSchema& empty();
  // This one and an entry more, which it must not have yet.
  const LogSchema& with(std::string_view collection, std::string_view name) const;

  std::size_t size() const noexcept { return keys_.size(); }
  const Key& operator[](std::size_t entry) const noexcept { return *keys_[entry]; }
  std::optional<std::size_t> find(std::string_view collection, std::string_view name) const noexcept;

  LogSchema(const LogSchema&) = delete;
  LogSchema& operator=(const LogSchema&) = delete;

 private:
  LogSchema() = default;
  LogSchema(const LogSchema& shorter, std::string_view collection, std::string_view name);
  const LogSchema* find_longer(std::string_view collection, std::string_view name) const noexcept;

  Key last_;
  std::vector<const Key*> keys_;                           // each is the last of a shorter schema or of this one
  mutable std::atomic<const LogSchema*> longer_{nullptr};  // by one entry: the first of a list, linked by next_
  const LogSchema* next_ = nullptr;
};

}  // namespace giro
