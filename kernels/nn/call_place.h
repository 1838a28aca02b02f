#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>

#include <giro/runtime/handle.h>
#include <giro/runtime/not_copied.h>

namespace giro::nn {

struct CallGroup;  // private

// Where a call stands in the program's text. As an argument it lives as long as the full expression of the call, whose
// parts C++ may evaluate in any order: calls whose places live at the same time get their numbers by their places, not
// by the order of their evaluation.
class CallPlace : detail::NotCopied {
 public:
  CallPlace(const std::source_location& where) : where_(where) {}  // NOLINT: a place is given by its location
  ~CallPlace() { leave(); }

  const std::source_location& where() const noexcept { return where_; }

 private:
  friend class Scope;
  void leave() const;

  std::source_location where_;
  mutable detail::Handle<CallGroup> group_;
  mutable std::size_t index_ = 0;    // in the group
  mutable std::uint64_t since_ = 0;  // the number of the first value that the call may make
};

// A name that is given in a call, and its place.
class CallName : public CallPlace {
 public:
  CallName(std::string name, const std::source_location& where = std::source_location::current())  // NOLINT
      : CallPlace(where), name_(std::move(name)) {}
  CallName(const char* name, const std::source_location& where = std::source_location::current())  // NOLINT
      : CallName(std::string(name), where) {}

  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

}  // namespace giro::nn
