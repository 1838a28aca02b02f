#pragma once

#include <string>

#include "kernels/pointwise/expression.h"
#include "runtime/program/op.h"

// Expressions as ops of a program (runtime/program/op.h). Each op has its own name.
namespace giro::pointwise {

void run(const Expression& expression, const Stream& stream);
Program::Node node_of(std::string name, const Expression& expression);
// Whether `write` may use the memory of `read`: each element is read before it is written, and nowhere else.
bool may_write_over(const Expression& expression, const Tensor& write, const Tensor& read);
template <class F>
void for_each_tensor(Expression& expression, const F& f) {
  for (Access& read : expression.reads) f(read.memory, detail::Use::read);
  for (Expression::Write& write : expression.writes) f(write.to.memory, detail::Use::written);
}

}  // namespace giro::pointwise
