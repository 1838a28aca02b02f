#include "runtime/op_by_op.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <typeinfo>

#include <giro/runtime/error.h>

namespace giro::detail {

void rethrow_from(const std::string& op) {
  try {
    throw;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (typeid(error) != typeid(Error) || message.find(op) != message.npos) throw;
    throw Error(error.code(), fmt::format("{}: {}", op, message), error.where());
  }
}

bool wants_op_by_op() {
  const char* setting = std::getenv("GIRO_BLOCKING");
  return setting != nullptr && *setting != '\0' && std::string_view(setting) != "0";
}

void wait_for(const std::string& what, const Stream& stream) {
  if (stream.is_recording()) return;
  try {
    stream.synchronize();
  } catch (...) {
    rethrow_from(what);
  }
}

}  // namespace giro::detail
