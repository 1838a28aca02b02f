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
#include <vector>

#include <giro/runtime/state.h>

namespace giro {

class Archive;

namespace detail {
template <class T>
concept Persistent = requires(T& value, Archive& archive) { value.persist(archive); };

// Whether an Archive takes it.
template <class T>
inline constexpr bool is_persistent = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || Persistent<T>;
template <class T>
inline constexpr bool is_persistent<std::optional<T>> = is_persistent<T>;
template <class T>
inline constexpr bool is_persistent<std::vector<T>> = is_persistent<T> && !std::is_same_v<T, bool>;
}  // namespace detail

// Where whatever has a memory writes it, and reads it from later: one member does both.
//
//   void persist(giro::Archive& archive) { archive("best", best_)("waited", waited_); }
//
// A value is a bool, an integer, a double, a string, a std::optional or std::vector of values, or an object with a
// member persist. What was written is a tree of names, JSON as text(), beside arrays that would be too long for text.
//
// On the way back nothing stops at what has changed in between: a name that is not there leaves its value as it is, and
// what nobody has asked for is passed over; report() tells both. Only a value of another kind is an error:
// Error(corrupt_data), naming its path. So is a name that is written twice: Error(invalid_argument).
class Archive {
 public:
  // Text of a line each that only grows, such as the records of a history: those from number `first` on.
  struct Lines {
    std::size_t first = 0, count = 0;
    std::string text = {};  // each line with its '\n'
    bool damaged = false;   // the text has not all of them
  };

  // To be written to. Of the lines at a path, so many are kept somewhere already.
  explicit Archive(std::map<std::string, std::size_t> kept_lines);
  Archive();
  // To be read from: what text(), arrays() and all lines() gave. `owner` keeps the arrays' memory alive.
  // Error(corrupt_data) if the text is not a JSON object, or nests deeper than kMaxDepth.
  static Archive read(std::string_view text, std::vector<Leaf> arrays = {}, std::shared_ptr<const void> owner = nullptr,
                      std::map<std::string, Lines> lines = {});
  Archive(Archive&&) noexcept;
  Archive& operator=(Archive&&) noexcept;
  ~Archive();

  static constexpr std::size_t kMaxDepth = 64;

  bool is_reading() const noexcept;
  // Whether there is such a name here.
  bool contains(std::string_view name) const;

  template <class T>
  Archive& operator()(std::string_view name, T& value) {
    static_assert(detail::is_persistent<T>,
                  "giro: an archive takes numbers, strings, optionals and vectors of what it takes, and objects with a "
                  "public persist(Archive&)");
    at(name, [&] { item(value); });
    return *this;
  }
  // A date, in seconds since the Unix epoch, of a run's clock: it is read as if the run had not been interrupted.
  Archive& date(std::string_view name, double& date) {
    at(name, [&] { item_date(date); });
    return *this;
  }
  Archive& date(std::string_view name, std::optional<double>& date) {
    at(name, [&] { item_optional(date, [&](double& value) { item_date(value); }); });
    return *this;
  }
  // How much later than they were written all dates are to be read, in seconds.
  void shift_dates(double seconds) noexcept;

  // Values whose names are paths below `name`. When reading, f is not called where there is no such name.
  template <class F>
  void within(std::string_view name, F&& f) {
    at(name, [&] {
      item_object();
      f();
    });
  }

  // Arrays in host memory, which must not change as long as this or what was made of it lives; `owner` keeps it alive.
  // Their paths are within `name`. When reading, `leaves` and `owner` are left as they are where there are none. Pieces
  // of leaves come back as whole leaves, where all processes that have some save them (SaveGroup).
  // Error(device_mismatch) for one that is not on the CPU.
  void arrays(std::string_view name, std::vector<Leaf>& leaves, std::shared_ptr<const void>& owner);

  // Lines, of which there are `count` to be written: `write` gives the text of those from a number on; `read` takes
  // that of all, and throws Error(corrupt_data) where it is not what write gave. Where some were damaged on the disk it
  // takes that of the others, and where that is an error, report() has the name as one that is not there.
  void lines(std::string_view name, std::size_t count, const std::function<std::string(std::size_t first)>& write,
             const std::function<void(std::string_view text)>& read);

  // What was written: a JSON object, and by their paths in it the arrays and the lines.
  std::string text() const;
  const std::vector<Leaf>& arrays() const noexcept;
  const std::map<std::string, Lines>& lines() const noexcept;
  // Keeps the memory of arrays() alive.
  std::shared_ptr<const void> owner() const;

  // When all was read: what was not there, and what nobody has asked for, a line each.
  std::vector<std::string> report() const;

 private:
  // Leaves the name that was entered, also where an error ends what is done there.
  class Level {
   public:
    explicit Level(Archive& archive) : archive_(archive) {}
    ~Level() { archive_.leave(); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Archive& archive_;
  };

  template <class F>
  void at(std::string_view name, F&& f) {
    if (!enter(name)) return;
    const Level level(*this);
    f();
  }
  bool enter(std::string_view name);
  void enter(std::size_t index);
  void leave() noexcept;
  // The value at hand.
  void item(bool& value);
  void item(std::int64_t& value);
  void item(std::uint64_t& value);
  void item(double& value);
  void item(std::string& value);
  void item_date(double& value);
  // Whether there is one: null stands for none.
  bool item_exists(bool exists);
  std::size_t item_size(std::size_t size);
  void item_object();
  [[noreturn]] void refuse_range() const;

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
    if (static_cast<decltype(wide)>(value) != wide) refuse_range();
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
    for (std::size_t i = 0; i < values.size(); ++i) {
      enter(i);
      const Level level(*this);
      item(values[i]);
    }
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
