#include <giro/runtime/files/archive.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include <giro/runtime/error.h>

#include "runtime/throw_error.h"

namespace giro {
namespace {

using Json = nlohmann::ordered_json;

// JSON cannot represent non-finite numbers.
constexpr std::pair<std::string_view, double> kNotFinite[] = {{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                                              {"Infinity", std::numeric_limits<double>::infinity()},
                                                              {"-Infinity", -std::numeric_limits<double>::infinity()}};

std::string joined(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}/{}", path, name);
}

}  // namespace

struct Archive::Tree {
  struct Level {
    Json* node;
    std::string name;
  };

  bool reading = false;
  double date_shift = 0;
  Json root = Json::object();
  std::vector<Level> levels{{&root, ""}};  // from the root to the current value
  std::vector<Leaf> arrays;
  std::vector<std::shared_ptr<const void>> owners;
  std::map<std::string, Lines> lines;
  std::map<std::string, std::size_t> kept_lines;
  std::set<const Json*> read;  // values that were read
  std::set<std::string> read_arrays;
  std::vector<std::string> missing;

  Json& node() { return *levels.back().node; }
  std::string path(std::string_view name = "") const {
    std::string path;
    for (std::size_t i = 1; i < levels.size(); ++i) path = joined(path, levels[i].name);
    return name.empty() ? path : joined(path, name);
  }
  [[noreturn]] void reject(const std::string& expected) {
    throw_error(ErrorCode::corrupt_data, "'{}' is {}, expected {}", path(), node().dump().substr(0, 60), expected);
  }
  // Calls f() while that is the current value.
  void visit(Json& value, std::string name, detail::FunctionRef<void()> f) {
    struct Leave {
      std::vector<Level>& levels;
      ~Leave() { levels.pop_back(); }
    };
    if (reading) read.insert(&value);
    levels.push_back({&value, std::move(name)});
    const Leave leave{levels};
    f();
  }
  // Writes the current value, or reads it if it is of the `expected` type.
  template <class T>
  void exchange(T& value, bool is_expected, const char* expected) {
    if (!reading) {
      node() = value;
    } else if (is_expected) {
      value = node().get<T>();
    } else {
      reject(expected);
    }
  }
  void report_unread(const Json& at, const std::string& path, std::vector<std::string>& lines) const {
    if (!at.is_structured()) return;
    for (const auto& [name, value] : at.items()) {
      const std::string inner = joined(path, name);
      if (!read.contains(&value)) {
        lines.push_back(fmt::format("'{}' was saved, but nothing here reads it", inner));
      } else {
        report_unread(value, inner, lines);
      }
    }
  }
};

Archive::Archive(std::map<std::string, std::size_t> kept_lines) : tree_(std::make_shared<Tree>()) {
  tree_->kept_lines = std::move(kept_lines);
}
Archive::Archive() : Archive(std::map<std::string, std::size_t>()) {}

Archive Archive::read(std::string_view text, std::vector<Leaf> arrays, std::shared_ptr<const void> owner,
                      std::map<std::string, Lines> lines) {
  Archive archive;
  Tree& tree = *archive.tree_;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) {
    if (depth > static_cast<int>(kMaxDepth)) {
      throw_error(ErrorCode::corrupt_data, "it is nested more than {} levels deep", kMaxDepth);
    }
    return true;
  };
  try {
    tree.root = Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    throw_error(ErrorCode::corrupt_data, "it is not valid JSON at byte {}", error.byte);
  } catch (const Json::out_of_range&) {
    throw Error(ErrorCode::corrupt_data, "it has a number that a double cannot hold");
  }
  if (!tree.root.is_object()) throw Error(ErrorCode::corrupt_data, "it is JSON, but not an object");
  tree.reading = true;
  tree.arrays = std::move(arrays);
  tree.owners = {std::move(owner)};
  tree.lines = std::move(lines);
  return archive;
}

bool Archive::is_reading() const noexcept { return tree_->reading; }
bool Archive::contains(std::string_view name) const { return tree_->node().contains(name); }
void Archive::shift_dates(double seconds) noexcept { tree_->date_shift = seconds; }

void Archive::at(std::string_view name, detail::FunctionRef<void()> f) {
  Tree& tree = *tree_;
  if (!tree.reading) {
    const auto [added, is_new] = tree.node().emplace(name, nullptr);
    if (!is_new) throw_invalid("persist: '{}' is written twice", tree.path(name));
    return tree.visit(*added, std::string(name), f);
  }
  const auto found = tree.node().find(name);
  if (found != tree.node().end()) return tree.visit(*found, std::string(name), f);
  tree.missing.push_back(tree.path(name));
}

void Archive::at(std::size_t index, detail::FunctionRef<void()> f) {
  tree_->visit(tree_->node()[index], std::to_string(index), f);
}

void Archive::item(bool& value) { tree_->exchange(value, tree_->node().is_boolean(), "true or false"); }

void Archive::item(std::int64_t& value) {
  const Json& node = tree_->node();
  const bool fits = node.is_number_unsigned() ? node.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max()
                                              : node.is_number_integer();
  tree_->exchange(value, fits, "a 64-bit integer");
}

void Archive::item(std::uint64_t& value) {
  tree_->exchange(value, tree_->node().is_number_unsigned(), "an integer of at least 0");
}

void Archive::item(double& value) {
  Json& node = tree_->node();
  if (!tree_->reading) {
    node = value;
    if (!std::isfinite(value)) node = std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  if (node.is_number()) {
    value = node.get<double>();
    return;
  }
  for (const auto& [text, number] : kNotFinite) {
    if (node.is_string() && node.get_ref<const std::string&>() == text) {
      value = number;
      return;
    }
  }
  tree_->reject("a number");
}

void Archive::item(std::string& value) { tree_->exchange(value, tree_->node().is_string(), "a string"); }

void Archive::item_date(double& value) {
  item(value);
  if (tree_->reading) value += tree_->date_shift;
}

bool Archive::item_exists(bool exists) { return tree_->reading ? !tree_->node().is_null() : exists; }

std::size_t Archive::item_size(std::size_t size) {
  if (!tree_->reading) {
    tree_->node() = Json(Json::array_t(size));
    return size;
  }
  if (!tree_->node().is_array()) tree_->reject("a list");
  return tree_->node().size();
}

void Archive::item_object() {
  if (!tree_->reading) {
    tree_->node() = Json::object();
  } else if (!tree_->node().is_object()) {
    tree_->reject("an object");
  }
}

void Archive::reject_change(const Owner& owner, std::string_view name, const std::string& found,
                            const std::string& expected) {
  throw_invalid("{} differs from that of the saved run: {}: found {}, expected {}; {}", owner.name, name, found,
                expected, owner.instead);
}

void Archive::reject_range() const { tree_->reject("a smaller integer"); }

void Archive::arrays(std::string_view name, std::vector<Leaf>& leaves, std::shared_ptr<const void>& owner) {
  Tree& tree = *tree_;
  const std::string prefix = tree.path(name) + "/";
  if (!tree.reading) {
    for (const Leaf& leaf : leaves) {
      if (!leaf.value.device().is_cpu()) {
        throw_error(ErrorCode::device_mismatch, "persist: '{}{}' is {}, expected it on the host", prefix, leaf.path,
                    to_string(leaf.value));
      }
      tree.arrays.push_back({prefix + leaf.path, leaf.value, leaf.piece});
    }
    tree.owners.push_back(owner);
    return;
  }
  std::vector<Leaf> found;
  for (const Leaf& leaf : tree.arrays) {
    if (!leaf.path.starts_with(prefix)) continue;
    found.push_back({leaf.path.substr(prefix.size()), leaf.value});
    tree.read_arrays.insert(leaf.path);
  }
  if (found.empty()) return;
  leaves = std::move(found);
  owner = this->owner();
}

void Archive::lines(std::string_view name, std::size_t count,
                    const std::function<std::string(std::size_t first)>& write,
                    const std::function<void(std::string_view text)>& read) {
  Tree& tree = *tree_;
  const std::string path = tree.path(name);
  std::size_t lines = count;
  (*this)(name, lines);
  if (!tree.reading) {
    const auto kept = tree.kept_lines.find(path);
    const std::size_t first = kept == tree.kept_lines.end() || kept->second > count ? 0 : kept->second;
    tree.lines[path] = {first, count, write(first)};
    return;
  }
  const auto found = tree.lines.find(path);
  if (found == tree.lines.end()) {
    tree.missing.push_back(path);
    return;
  }
  if (found->second.count != lines) {
    throw_error(ErrorCode::corrupt_data, "'{}' has {} lines, expected {}", path, found->second.count, lines);
  }
  try {
    read(found->second.text);
  } catch (const Error& error) {
    if (!found->second.damaged || error.code() != ErrorCode::corrupt_data) throw;
    tree.missing.push_back(path);
  }
}

std::string Archive::text() const { return tree_->root.dump(1, ' ', false, Json::error_handler_t::replace); }
const std::vector<Leaf>& Archive::arrays() const noexcept { return tree_->arrays; }
const std::map<std::string, Archive::Lines>& Archive::lines() const noexcept { return tree_->lines; }
std::shared_ptr<const void> Archive::owner() const {
  return std::make_shared<std::vector<std::shared_ptr<const void>>>(tree_->owners);
}

std::vector<std::pair<std::string, std::string>> Archive::values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& [name, value] : tree_->root.items()) {
    values.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return values;
}

std::vector<std::string> Archive::report() const {
  std::vector<std::string> lines;
  for (const std::string& path : tree_->missing) lines.push_back(fmt::format("'{}' was not saved", path));
  tree_->report_unread(tree_->root, "", lines);
  for (const Leaf& leaf : tree_->arrays) {
    if (!tree_->read_arrays.contains(leaf.path)) {
      lines.push_back(fmt::format("'{}' was saved, but nothing here reads it", leaf.path));
    }
  }
  return lines;
}

}  // namespace giro
