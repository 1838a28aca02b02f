#pragma once

#include <string>

#include "kernels/pointwise/expression.h"
#include "runtime/program/op.h"

// An expression is an op of a program (runtime/program/op.h), each time by a name of its own.
namespace giro::pointwise {

void run(const Expression& expression, const Stream& stream);
Program::Node node_of(std::string name, const Expression& expression);
// Where each element is read before it is written, and nowhere else.
bool may_write_over(const Expression& expression, const Tensor& write, const Tensor& read);
template <class F>
void for_each_tensor(Expression& expression, const F& f) {
  for (Access& read : expression.reads) f(read.memory, detail::Use::read);
  for (Expression::Write& write : expression.writes) f(write.to.memory, detail::Use::written);
}

}  // namespace giro::pointwise
