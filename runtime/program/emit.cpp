#include "runtime/program/emit.h"

#include "runtime/call_site.h"
#include "runtime/op_by_op.h"

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

}  // namespace giro::detail
