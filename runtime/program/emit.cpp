#include "runtime/program/emit.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <typeinfo>

#include <giro/runtime/error.h>

#include "runtime/internal/backend.h"
#include "runtime/internal/call_site.h"

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

void emit(const OpCall& call, const Program::Node& node, const Stream& stream) {
  const auto site = CallSite::of_node(node.where);
  try {
    const OpScope scope(node.op.c_str());
    call.emit(stream);
  } catch (...) {
    rethrow_from(node.op);
  }
}

bool Blocking::is_wanted() {
  const char* setting = std::getenv("GIRO_BLOCKING");
  return setting != nullptr && *setting != '\0' && std::string_view(setting) != "0";
}

void Blocking::wait(const std::string& what, const Stream& stream) {
  if (stream.is_recording()) return;
  try {
    stream.synchronize();
  } catch (...) {
    rethrow_from(what);
  }
}

void replay_op_by_op(const GraphOwned& graph, const Stream& stream, std::int64_t number) {
  const Program& program = graph.program;
  for (std::size_t i = 0; i < graph.calls.size(); ++i) {
    const Program::Node& node = program.nodes()[i];
    try {
      emit(*graph.calls[i], node, stream);
      stream.synchronize();
    } catch (const Error& error) {
      const auto site = CallSite::of_node({});
      throw Error(error.code(),
                  fmt::format("{}; op {} of {} in call {} of {}: {}", error.what(), i + 1, graph.calls.size(), number,
                              program.name(), program.describe(i)),
                  error.where());
    }
  }
}

}  // namespace giro::detail
