#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/expr/expression.h"
#include "runtime/program/op.h"

namespace giro::cpu {
// Queues the expression, with the plan of all of its structure; a recording replays only the plan.
// Errors: dtype_mismatch (a function does not take such inputs, or memory holds another dtype than its value),
// invalid_argument (argmax or argmin of no elements, an operand after its use).
void run(const expr::Expression& expression, const Stream& stream);
}  // namespace giro::cpu
namespace giro::cuda {
// Queues an expression on a stream of its device. Compiles its kernels unless this process or the cache has them.
// Errors: device, out_of_memory, unsupported (no NVRTC), dtype_mismatch (memory holds another dtype than its value),
// invalid_argument (a function's source does not compile, an operand after its use).
void run(const expr::Expression& expression, const Stream& stream);
}  // namespace giro::cuda

// Expressions as ops of a program (runtime/program/op.h). Each op has its own name.
namespace giro::expr {

void run(const Expression& expression, const Stream& stream);
Program::Node node_of(std::string name, const Expression& expression);
// Whether `write` may use the memory of `read`: each element is read before it is written, and nowhere else.
bool may_write_over(const Expression& expression, const Tensor& write, const Tensor& read);
// Whether the writes to this memory leave some of its elements as they are.
bool writes_only_some(const Expression& expression, const Tensor& memory);
template <class F>
void for_each_tensor(Expression& expression, const F& f) {
  for (Access& read : expression.reads) f(read.memory, detail::Use::read);
  const auto use_of = [&](const Expression::Write& write) {
    return writes_only_some(expression, write.to.memory) ? detail::Use::updated : detail::Use::written;
  };
  std::vector<Expression::Write>& writes = expression.writes;
  if (writes.size() == 1) return f(writes[0].to.memory, use_of(writes[0]));
  std::vector<detail::Use> uses;  // known before `f` changes the memory of the first one
  for (const Expression::Write& write : writes) uses.push_back(use_of(write));
  for (std::size_t i = 0; i < writes.size(); ++i) f(writes[i].to.memory, uses[i]);
}

}  // namespace giro::expr
