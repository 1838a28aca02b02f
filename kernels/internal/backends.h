#pragma once

// What each backend implements: the ops of the public headers, their arguments already checked.

#include <vector>

#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/cumulative.h>
#include <giro/kernels/gather.h>
#include <giro/kernels/math.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>

namespace giro {
struct RowPart;  // kernels/functors/publish.h
namespace pointwise {
struct Expression;
}
}  // namespace giro

#define GIRO_DECLARE_OPS                                                                                              \
  void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Math math, const Stream& stream);    \
  void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,        \
                      const Tensor& w, Math math, const Stream& stream);                                              \
  void dense_backward_add(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, Math math,           \
                          const Stream& stream);                                                                      \
  void dense_of_bytes(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b,              \
                      const Stream& stream);                                                                          \
  void dense_of_bytes_backward(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, double factor,  \
                               const Stream& stream);                                                                 \
  void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,       \
              Math math, const Stream& stream);                                                                       \
  void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,       \
                       const Tensor& w, const Conv2dOptions& options, Math math, const Stream& stream);               \
  void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream);                  \
  void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream);       \
  void activation_avg_pool(const Tensor& y, const Tensor& z, const Tensor& b, Activation f,                           \
                           const PoolOptions& options, const Stream& stream);                                         \
  void avg_pool_activation_backward(const Tensor& dz, const Tensor& db, const Tensor& dy, const Tensor& x,            \
                                    const Tensor& b, Activation f, const PoolOptions& options, const Stream& stream); \
  void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream);                  \
  void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y,                        \
                         const PoolOptions& options, const Stream& stream);                                           \
  void digest(const Tensor& digest, const Tensor& bytes, const Stream& stream);                                       \
  void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream);                                            \
  void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream);              \
  void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels, \
                             const Stream& stream);                                                                   \
  void mean_cross_entropy(const Tensor& loss, const Tensor& dlogits, const Tensor& accuracy, const Tensor& logits,    \
                          const Tensor& labels, double factor, const Stream& stream);                                 \
  void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream);                \
  void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream);  \
  void gather_batch(const std::vector<GatheredArray>& arrays, const SlotRing& positions, const RowOrder& order,       \
                    const Stream& stream);                                                                            \
  void publish_columns(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream);            \
  void read_slot(const Tensor& out, const SlotRing& ring, std::int64_t offset, const Stream& stream);                 \
  void write_slot(const SlotRing& ring, std::int64_t offset, const Tensor& in, const Stream& stream);                 \
  void run_and_publish(const pointwise::Expression& expression, const RowRing& ring, const Tensor& row,               \
                       const RowPart& part, const Stream& stream)

namespace giro::cpu {
GIRO_DECLARE_OPS;
}
namespace giro::cuda {
GIRO_DECLARE_OPS;
}

#undef GIRO_DECLARE_OPS
