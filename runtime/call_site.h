#pragma once

#include <source_location>

#include <giro/runtime/not_copied.h>

namespace giro::detail {

// The line of the user's program that called into giro. Errors made while an instance lives name it (runtime/error.h),
// and the nodes of a program remember it (Program::Node). Among nested calls the outermost counts, since the inner ones
// are giro's own, except in user code that giro calls. If giro itself makes the outermost call, it passes a location
// without a line, std::source_location().
class CallSite : NotCopied {
 public:
  explicit CallSite(const std::source_location& where) noexcept
      : CallSite(current_.is_open ? Site{where.line() != 0 ? where : current_.where, false} : current_, 0) {}
  ~CallSite() { current_ = outer_; }

  // While user code runs, e.g. a user's layer: the calls in it have their own lines.
  static CallSite of_user_code() noexcept { return {Site{current_.where, true}, 0}; }
  // While the work of a node is created or queued: the line that made the node, if known.
  static CallSite of_node(const std::source_location& where) noexcept {
    return {where.line() != 0 ? Site{where, false} : current_, 0};
  }

  // line() is 0 if unknown.
  static std::source_location where() noexcept { return current_.where; }

 private:
  struct Site {
    std::source_location where;
    bool is_open;  // a call from user code may follow
  };
  CallSite(const Site& site, int) noexcept : outer_(current_) { current_ = site; }

  Site outer_;
  static inline constinit thread_local Site current_{{}, true};
};

}  // namespace giro::detail
