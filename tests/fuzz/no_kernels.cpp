// What logs call for values that are computed on a device, and none that comes from a file is.

#include <cstdlib>

#include <giro/kernels/elementwise.h>
#include <giro/kernels/nn/var.h>
#include <giro/loop/log/log_row.h>

namespace giro {

void cast(const Tensor&, const Tensor&, const Stream&) { std::abort(); }
const Stream& nn::Var::stream() const { std::abort(); }
const Tensor& nn::Var::value() const { std::abort(); }
bool LogRow::ready() const { std::abort(); }
double LogRow::value(std::size_t) const { std::abort(); }

}  // namespace giro
