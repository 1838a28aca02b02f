#include <giro/runtime/error.h>

#include <fmt/format.h>

#include <string_view>

#include "runtime/call_site.h"

namespace giro {
namespace {

// An error may be built from another one, which already names the line.
std::string with_call_site(const std::string& message) {
  constexpr std::string_view kCalled = " (called at ";
  const std::source_location site = detail::CallSite::where();
  if (site.line() == 0 || message.find(kCalled) != message.npos) return message;
  return fmt::format("{}{}{}:{})", message, kCalled, site.file_name(), site.line());
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message, std::source_location where)
    : std::runtime_error(with_call_site(message)), code_(code), where_(where) {}

}  // namespace giro
