#pragma once

#include <source_location>

namespace giro::detail {

// The line of the user's program that has called into giro. Errors made while one lives name it (runtime/error.h), and
// the nodes of a program remember it (Program::Node). Of calls within each other the outermost counts, since the others
// are giro's own, but for those in code of the user's that giro calls. Where giro itself makes the outermost call it
// gives a location without a line, std::source_location().
class CallSite {
 public:
  explicit CallSite(const std::source_location& where) noexcept
      : CallSite(current_.is_open ? Site{where.line() != 0 ? where : current_.where, false} : current_, 0) {}
  ~CallSite() { current_ = outer_; }
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  // While the user's code runs, in a layer of theirs: the calls in it have lines of their own.
  static CallSite of_user_code() noexcept { return {Site{current_.where, true}, 0}; }
  // While the work of a node is made or queued: the line that has made the node, if that is known.
  static CallSite of_node(const std::source_location& where) noexcept {
    return {where.line() != 0 ? Site{where, false} : current_, 0};
  }

  // line() is 0 where it is not known.
  static std::source_location where() noexcept { return current_.where; }

 private:
  struct Site {
    std::source_location where;
    bool is_open;  // a call of the user's may follow
  };
  CallSite(const Site& site, int) noexcept : outer_(current_) { current_ = site; }

  Site outer_;
  static inline constinit thread_local Site current_{{}, true};
};

}  // namespace giro::detail
