#include "runtime/program/emit.h"

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "runtime/call_site.h"
#include "runtime/op_by_op.h"
#include "runtime/program/graph_impl.h"

namespace giro::detail {

void emit(const OpCall& call, const Program::Node& node, const Stream& stream) {
  const auto site = CallSite::of_node(node.where);
  try {
    const OpScope scope(node.op.c_str());
    call.emit(stream);
  } catch (...) {
    rethrow_from(node.op);
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
