// Stubs for functions that logs call for values computed on a device, which a parser never reads.

#include <cstdlib>

#include <giro/kernels/nn/var.h>
#include <giro/loop/log/log_ring.h>

#include "kernels/elementwise.h"

namespace giro {

void ops::cast(const Tensor&, const Tensor&, const Stream&) { std::abort(); }
const Stream& nn::Var::stream() const { std::abort(); }
const Tensor& nn::Var::value() const { std::abort(); }
bool LogRow::ready() const { std::abort(); }
const std::vector<LogValue>& LogRow::read() const { std::abort(); }

}  // namespace giro
