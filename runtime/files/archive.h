#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/function_ref.h>
#include <giro/runtime/state.h>

namespace giro {

class Archive;

namespace detail {
template <class T>
concept Persistent = requires(T& value, Archive& archive) { value.persist(archive); };

// Whether an Archive accepts the type.
template <class T>
inline constexpr bool is_persistent = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || Persistent<T>;
template <class T>
inline constexpr bool is_persistent<std::optional<T>> = is_persistent<T>;
template <class T>
inline constexpr bool is_persistent<std::vector<T>> = is_persistent<T> && !std::is_same_v<T, bool>;
}  // namespace detail

// Saves and later restores what objects must remember; one member function does both.
//
//   void persist(giro::Archive& archive) { archive("best", best_)("waited", waited_); }
//
// A value is a bool, an integer, a double, a string, a std::optional or std::vector of values, or an object with a
// member persist. The contents are a tree of names, available as JSON in text(), plus arrays that would be too long for
// text.
//
// Reading tolerates changes made since the save: a missing name leaves its value as it is, and values that nothing
// reads are skipped; report() lists both. Only a value of the wrong type is an error: Error(corrupt_data), naming its
// path. Writing a name twice is an Error(invalid_argument).
class Archive {
 public:
  // Lines of append-only text, e.g. the records of a history, from line number `first` on.
  struct Lines {
    std::size_t first = 0, count = 0;
    std::string text = {};  // each line with its '\n'
    bool damaged = false;   // some lines are missing from the text
  };

  // For writing. `kept_lines`: the number of lines already stored elsewhere, by path.
  explicit Archive(std::map<std::string, std::size_t> kept_lines);
  Archive();
  // For reading: takes the results of text(), arrays() and lines(), with all lines from the first on. `owner` keeps the
  // arrays' memory alive. Error(corrupt_data) if the text is not a JSON object, or nests deeper than kMaxDepth.
  static Archive read(std::string_view text, std::vector<Leaf> arrays = {}, std::shared_ptr<const void> owner = nullptr,
                      std::map<std::string, Lines> lines = {});
  Archive(Archive&&) noexcept = default;
  Archive& operator=(Archive&&) noexcept = default;

  static constexpr std::size_t kMaxDepth = 64;

  bool is_reading() const noexcept;
  // Whether the current object has a value of this name.
  bool contains(std::string_view name) const;

  template <class T>
  Archive& operator()(std::string_view name, T& value) {
    static_assert(detail::is_persistent<T>,
                  "giro: an archive takes numbers, strings, optionals and vectors of these, and objects with a public "
                  "persist(Archive&)");
    at(name, [&] { item(value); });
    return *this;
  }
  // A date on a run's clock, in seconds since the Unix epoch. It is read as if the run had not been interrupted.
  Archive& date(std::string_view name, double& date) {
    at(name, [&] { item_date(date); });
    return *this;
  }
  Archive& date(std::string_view name, std::optional<double>& date) {
    at(name, [&] { item_optional(date, [&](double& value) { item_date(value); }); });
    return *this;
  }
  // Reading adds this many seconds to all dates.
  void shift_dates(double seconds) noexcept;

  // A value that tells what a run means, such as the batch size or the seed of an order: a run is only resumed with the
  // same one. Saves it, or compares it with the saved one: Error(invalid_argument), naming both, if they differ. A run
  // that was saved without it counts as saved with `absent`, by default with the same value.
  struct Owner {
    std::string_view name;     // e.g. "the dataset"
    std::string_view instead;  // what to do about another value
  };
  template <class T>
  Archive& same(const Owner& owner, std::string_view name, const T& value, const T& absent) {
    static_assert(std::is_integral_v<T> || std::is_same_v<T, std::string>);
    T saved = is_reading() ? absent : value;
    (*this)(name, saved);
    if (!(saved == value)) reject_change(owner, name, text_of(value), text_of(saved));
    return *this;
  }
  template <class T>
  Archive& same(const Owner& owner, std::string_view name, const T& value) {
    return same(owner, name, value, value);
  }

  // Values with paths below `name`. When reading, f is not called if the name is missing.
  template <class F>
  void within(std::string_view name, F&& f) {
    at(name, [&] {
      item_object();
      f();
    });
  }

  // Arrays in host memory. They must not change while this archive, or anything made from it, lives; `owner` keeps
  // their memory alive. Their paths lie below `name`. When reading, `leaves` and `owner` stay unchanged if there are
  // none. Pieces of leaves come back as whole leaves if all processes that hold pieces save them (SaveGroup).
  // Error(device_mismatch) for an array that is not on the CPU.
  void arrays(std::string_view name, std::vector<Leaf>& leaves, std::shared_ptr<const void>& owner);

  // Lines, `count` of them when writing. `write(first)` returns the text of the lines from `first` on. `read` takes the
  // text of all lines, and throws Error(corrupt_data) if write could not have produced it. If some lines were damaged
  // on disk, `read` gets the others; if it rejects these, report() lists the name as missing.
  void lines(std::string_view name, std::size_t count, const std::function<std::string(std::size_t first)>& write,
             const std::function<void(std::string_view text)>& read);

  // The contents: a JSON object, and the arrays and lines by their paths in it.
  std::string text() const;
  const std::vector<Leaf>& arrays() const noexcept;
  const std::map<std::string, Lines>& lines() const noexcept;
  // Keeps the memory of arrays() alive.
  std::shared_ptr<const void> owner() const;
  // The outermost values by their names, as JSON; a string without its quotes.
  std::vector<std::pair<std::string, std::string>> values() const;

  // After reading: the names that were missing and the values that nothing read, one line each.
  std::vector<std::string> report() const;

 private:
  // Calls f() while the value of this name or at this index is the current one; not if a read name is missing.
  void at(std::string_view name, detail::FunctionRef<void()> f);
  void at(std::size_t index, detail::FunctionRef<void()> f);
  // Reads or writes the current value.
  void item(bool& value);
  void item(std::int64_t& value);
  void item(std::uint64_t& value);
  void item(double& value);
  void item(std::string& value);
  void item_date(double& value);
  // Whether there is a value: null stands for none.
  bool item_exists(bool exists);
  std::size_t item_size(std::size_t size);
  void item_object();
  [[noreturn]] void reject_range() const;
  [[noreturn]] static void reject_change(const Owner& owner, std::string_view name, const std::string& found,
                                         const std::string& expected);
  static std::string text_of(const std::string& value) { return value; }
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::integral auto value) { return std::to_string(value); }

  void item(float& value) {
    double wide = value;
    item(wide);
    value = static_cast<float>(wide);
  }
  template <std::integral T>
  void item(T& value) {
    std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> wide = value;
    item(wide);
    value = static_cast<T>(wide);
    if (static_cast<decltype(wide)>(value) != wide) reject_range();
  }
  template <class T>
  void item(std::optional<T>& value) {
    item_optional(value, [&](T& inner) { item(inner); });
  }
  template <class T, class F>
  void item_optional(std::optional<T>& value, F&& f) {
    if (!item_exists(value.has_value())) {
      value.reset();
      return;
    }
    if (!value) value.emplace();
    f(*value);
  }
  template <class T>
  void item(std::vector<T>& values) {
    values.resize(item_size(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) at(i, [&] { item(values[i]); });
  }
  template <detail::Persistent T>
  void item(T& value) {
    item_object();
    value.persist(*this);
  }

  struct Tree;
  std::shared_ptr<Tree> tree_;
};

}  // namespace giro
