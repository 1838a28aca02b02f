#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/kernels/nn/direction.h>

namespace giro {

// The names of the entries of a Logs, in order. A handle: copies share the names, and so do two schemas if one is a
// prefix of the other. Unused names are freed. Several threads may use schemas that share names.
class LogSchema {
 public:
  struct Key {
    std::string collection;
    std::string name;

    std::string path() const { return collection + "." + name; }
    // Whether `path` is path(), without making it.
    bool has_path(std::string_view path) const noexcept;
    bool is(std::string_view other_collection, std::string_view other_name) const noexcept {
      return name == other_name && collection == other_collection;
    }
  };

  // What an entry is for: a value of its own, or data to merge the metric at a position before it (Logs::add_metric).
  enum class Part : std::uint8_t { value, count, mean, logarithm };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  // How the values of an entry in several records become one (CombinedLogs).
  enum class Rule : std::uint8_t {
    mean,  // weighted by the metric's count, or by the samples of the records
    last,  // the newest: of a rate, a learning rate, the result of an evaluation
    sum,   // of a total, such as a confusion matrix
  };
  struct Role {
    Part part = Part::value;
    std::size_t metric = 0;
    Rule rule = Rule::mean;                            // of a value
    nn::Direction direction = nn::Direction::unknown;  // of a value: which way it is better

    // The role among other entries, where entry i has the position positions[i], or kNone if it is left out.
    template <class Positions>
    Role among(const Positions& positions) const {
      if (part == Part::value) return *this;
      if (positions[metric] == kNone) return {};
      return {part, static_cast<std::size_t>(positions[metric])};
    }
    // The role of the combined value: results are not combined again, the newest one counts.
    Role of_result() const {
      Role result = *this;
      result.rule = Rule::last;
      return result;
    }
    friend bool operator==(const Role&, const Role&) = default;
  };
  // The positions of the data to merge a metric, if it has any.
  struct Parts {
    std::optional<std::size_t> count, mean, logarithm;
  };

  // No entries.
  LogSchema() = default;
  LogSchema(const LogSchema&) = default;
  LogSchema(LogSchema&& other) noexcept
      : branch_(std::move(other.branch_)), size_(std::exchange(other.size_, std::size_t{0})) {}
  LogSchema& operator=(const LogSchema&) = default;
  LogSchema& operator=(LogSchema&& other) noexcept {
    branch_ = std::move(other.branch_);
    size_ = std::exchange(other.size_, std::size_t{0});
    return *this;
  }

  // Adds an entry, which must be new.
  void add(std::string_view collection, std::string_view name, Role role);
  void add(std::string_view collection, std::string_view name) { add(collection, name, Role()); }
  // Adds the entry only if that needs no search: another schema has already added it right after these names. Returns
  // whether it was added.
  bool add_if_next(std::string_view collection, std::string_view name, Role role) noexcept;

  std::size_t size() const noexcept { return size_; }
  const Key& operator[](std::size_t entry) const noexcept;
  const Role& role(std::size_t entry) const noexcept;
  // How the entry is combined; each of the collection "stateful_metrics" is its newest value.
  Rule rule(std::size_t entry) const noexcept;
  // Which way the entry is better; each of the collection "losses" is better if it is lower.
  nn::Direction direction(std::size_t entry) const noexcept;
  // For each entry.
  std::vector<Parts> parts() const;
  std::optional<std::size_t> find(std::string_view collection, std::string_view name) const;
  // By the name alone or as "collection.name". Error(invalid_argument) if several collections have the name.
  std::optional<std::size_t> find(std::string_view key) const;

  // Whether the names, roles and their order are the same. Compares no names: equal sequences of names are on the same
  // branch.
  friend bool operator==(const LogSchema& a, const LogSchema& b) noexcept {
    return a.branch_ == b.branch_ && a.size_ == b.size_;
  }

 private:
  class Branch;

  std::shared_ptr<Branch> branch_;  // these are its first names; null if there are none
  std::size_t size_ = 0;
};

}  // namespace giro
