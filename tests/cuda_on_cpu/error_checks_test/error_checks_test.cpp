// Tests that giro reports any failing call of the CUDA runtime or a library immediately. For each operation, each of
// its calls is made to fail in turn.

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/error.h>
#include <giro/runtime/files/trace.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/kernels/declined.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

const Device kDevice = Device::cuda();

// What an operation works on. Each attempt has its own, so nothing is left over from the previous attempt.
class Bench {
 public:
  // A wait that was made to fail has not waited, so earlier work may still use the host's memory.
  ~Bench() {
    try {
      stream_.synchronize();
    } catch (const Error&) {  // the failure under test
    }
  }
  const Stream& stream() const { return stream_; }
  Tensor zeros(const Shape& shape, DType dtype = DType::f32) {
    buffers_.push_back(Buffer::allocate(kDevice, static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    stream_.fill(buffers_.back().data(), 0, buffers_.back().size());
    return Tensor(buffers_.back().data(), dtype, shape, kDevice);
  }
  void* pinned(std::size_t bytes) {
    buffers_.push_back(Buffer::allocate(kDevice, bytes, MemoryKind::pinned));
    return buffers_.back().data();
  }
  void* pageable(std::size_t bytes) {
    host_.emplace_back(bytes);
    return host_.back().data();
  }

 private:
  std::vector<std::vector<std::byte>> host_;
  const Stream stream_{kDevice};
  std::vector<Buffer> buffers_;
};

struct Operation {
  std::string name;
  // Creates what the operation needs and returns the operation.
  std::function<std::function<void()>(Bench&)> prepare;
};

std::ostream& operator<<(std::ostream& out, const Operation& operation) { return out << operation.name; }

const std::vector<Operation> kOperations{
    {"allocate", [](Bench&) { return [] { (void)Buffer::allocate(kDevice, 100); }; }},
    {"allocate_pinned", [](Bench&) { return [] { (void)Buffer::allocate(kDevice, 100, MemoryKind::pinned); }; }},
    {"make_a_stream", [](Bench&) { return [] { (void)Stream(kDevice); }; }},
    {"copy_from_host",
     [](Bench& b) { return [&b, x = b.zeros({3}), y = b.pageable(12)] { b.stream().copy(x.raw(), y, x.bytes()); }; }},
    {"copy_to_host",
     [](Bench& b) { return [&b, x = b.zeros({3}), y = b.pageable(12)] { b.stream().copy(y, x.raw(), x.bytes()); }; }},
    {"copy_from_pinned",
     [](Bench& b) {
       return [&b, x = b.zeros({3}), y = b.pinned(12)] {
         b.stream().copy(x.raw(), y, x.bytes());
         b.stream().synchronize();
       };
     }},
    {"fill_bytes", [](Bench& b) { return [&b, x = b.zeros({3})] { b.stream().fill(x.raw(), 1, x.bytes()); }; }},
    {"order_streams",
     [](Bench& b) {
       return [&b, x = b.zeros({3})] {
         Event event(b.stream());
         b.stream().fill(x.raw(), 1, x.bytes());
         event.record(b.stream());
         const Stream other(kDevice);
         other.wait(event);
         (void)event.query();
         event.synchronize();
       };
     }},
    {"record_and_replay",
     [](Bench& b) {
       return [&b, x = b.zeros({100}), y = b.zeros({})] {
         const Graph graph = Graph::record(b.stream(), [&] {
           const Buffer temporary = b.stream().allocate(x.bytes());
           b.stream().copy(temporary.data(), x.raw(), x.bytes());
           sum(y, x, b.stream());
         });
         graph.replay(b.stream(), 3);
         b.stream().synchronize();
       };
     }},
    {"trace_a_replay",
     [](Bench& b) {
       return [&b, x = b.zeros({3})] {
         const Graph graph = Graph::record(b.stream(), [&] { b.stream().fill(x.raw(), 1, x.bytes()); });
         Trace trace;
         graph.replay(b.stream());
         trace.stop();
       };
     }},
    {"dense",
     [](Bench& b) {
       return [&b, y = b.zeros({2, 4}), x = b.zeros({2, 3}), w = b.zeros({3, 4}), bias = b.zeros({4})] {
         dense(y, x, w, bias, b.stream());
       };
     }},
    {"dense_of_nothing",
     [](Bench& b) {
       return [&b, y = b.zeros({2, 4}), x = b.zeros({2, 0}), w = b.zeros({0, 4}), bias = b.zeros({4})] {
         dense(y, x, w, bias, b.stream());
       };
     }},
    {"dense_backward",
     [](Bench& b) {
       return [&b, dz = b.zeros({2, 4}), x = b.zeros({2, 3}), w = b.zeros({3, 4}), db = b.zeros({4}),
               dw = b.zeros({3, 4}), dx = b.zeros({2, 3})] {
         dense_backward(dx, dw, db, dz, x, w, b.stream());
         dense_backward(dx, dw, {}, dz, x, w, b.stream());
         dense_backward({}, {}, db, dz, x, w, b.stream());
       };
     }},
    {"conv2d",
     [](Bench& b) {
       return [&b, y = b.zeros({2, 5, 5, 3}), x = b.zeros({2, 5, 5, 2}), bias = b.zeros({3}),
               odd = b.zeros({3, 3, 3, 2}), even = b.zeros({3, 2, 2, 2})] {
         for (const Tensor& w : {odd, even}) {
           const std::int64_t window = w.shape()[1];
           conv2d(y, x, w, bias, same_padding(5, 5, {window, window}, {1, 1}), b.stream());
         }
       };
     }},
    {"conv2d_backward",
     [](Bench& b) {
       return [&b, dz = b.zeros({2, 5, 5, 3}), x = b.zeros({2, 5, 5, 2}), dx = b.zeros({2, 5, 5, 2}), db = b.zeros({3}),
               odd = b.zeros({3, 3, 3, 2}), even = b.zeros({3, 2, 2, 2}), d_odd = b.zeros({3, 3, 3, 2}),
               d_even = b.zeros({3, 2, 2, 2})] {
         conv2d_backward(dx, d_odd, db, dz, x, odd, same_padding(5, 5, {3, 3}, {1, 1}), b.stream());
         conv2d_backward(dx, d_even, db, dz, x, even, same_padding(5, 5, {2, 2}, {1, 1}), b.stream());
       };
     }},
    {"declined",
     [](Bench& b) {
       return [&b, y = b.zeros({2, 4}), x = b.zeros({2, 300}), w = b.zeros({300, 4}), bias = b.zeros({4}),
               image = b.zeros({1, 3, 3, 2}), filter = b.zeros({4, 2, 2, 2}), out = b.zeros({1, 2, 2, 4}),
               d_image = b.zeros({1, 3, 3, 2}), d_filter = b.zeros({4, 2, 2, 2})] {
         const test::Declined declined;
         dense(y, x, w, bias, b.stream());  // with its sums split
         conv2d(out, image, filter, bias, {}, b.stream());
         conv2d_backward(d_image, d_filter, {}, out, image, filter, {}, b.stream());
       };
     }},
    {"pool",
     [](Bench& b) {
       return [&b, x = b.zeros({2, 4, 4, 3}), dx = b.zeros({2, 4, 4, 3}), y = b.zeros({2, 2, 2, 3}),
               dy = b.zeros({2, 2, 2, 3})] {
         const PoolOptions padded{.window = {3, 3}, .pad_before = {1, 1}};
         avg_pool(y, x, {}, b.stream());
         avg_pool_backward(dx, dy, {}, b.stream());
         max_pool(y, x, {}, b.stream());
         max_pool_backward(dx, dy, x, y, {}, b.stream());
         avg_pool(y, x, padded, b.stream());
         avg_pool_backward(dx, dy, padded, b.stream());
         max_pool(y, x, padded, b.stream());
         max_pool_backward(dx, dy, x, y, padded, b.stream());
       };
     }},
    {"reduce",
     [](Bench& b) {
       return
           [&b, y = b.zeros({}), squares = b.zeros({}, DType::f64), small = b.zeros({10}), large = b.zeros({10'000})] {
             for (const auto& reduction : {sum, mean, sum_of_squares}) {
               const Tensor& to = reduction == &sum_of_squares ? squares : y;
               reduction(to, small, b.stream());
               reduction(to, large, b.stream());
             }
           };
     }},
    {"sum_rows",
     [](Bench& b) {
       return [&b, y = b.zeros({3}), few = b.zeros({4, 3}), many = b.zeros({1100, 3})] {
         sum_rows(y, few, b.stream());
         sum_rows(y, many, b.stream());
       };
     }},
    {"softmax_cross_entropy",
     [](Bench& b) {
       return [&b, losses = b.zeros({5}), logits = b.zeros({5, 4}), labels = b.zeros({5}, DType::i32)] {
         softmax_cross_entropy(losses, logits, logits, labels, b.stream());
       };
     }},
    {"accuracy",
     [](Bench& b) {
       return [&b, y = b.zeros({}), few = b.zeros({5, 4}), many = b.zeros({200, 4}),
               few_labels = b.zeros({5}, DType::u8), many_labels = b.zeros({200}, DType::i64)] {
         accuracy(y, few, few_labels, b.stream());
         accuracy(y, many, many_labels, b.stream());
       };
     }},
    {"elementwise",
     [](Bench& b) {
       return [&b, x = b.zeros({4, 3}), y = b.zeros({4, 3}), factors = b.zeros({4}), scalar = b.zeros({}),
               half = b.zeros({4, 3}, DType::bf16), counter = b.zeros({}, DType::i64)] {
         add(y, x, x, b.stream());
         cast(half, x, b.stream());
         scale_rows(y, x, factors, b.stream());
         broadcast(y, scalar, 2, b.stream());
         increment(counter, 1, b.stream());
       };
     }},
    {"gather",
     [](Bench& b) {
       return [&b, rows = b.zeros({4, 3}), src = b.zeros({8, 3}), indices = b.zeros({4}, DType::i64),
               positions = ByteRing{b.zeros({2, 64}, DType::u8), b.zeros({}, DType::i64)}] {
         batch_indices(indices, positions, {.size = 8, .seed = 1, .shuffled = true}, b.stream());
         gather_rows(rows, src, indices, b.stream());
       };
     }},
    {"scatter",
     [](Bench& b) {
       return [&b, sums = b.zeros({8, 3}), updates = b.zeros({40, 3}), many = b.zeros({1, 1500}),
               indices = b.zeros({40}, DType::i64), order = b.zeros({1, 1500}, DType::i64)] {
         scatter_add(sums, updates, indices, false, b.stream());
         argsort(order, many, false, b.stream());
       };
     }},
    {"update",
     [](Bench& b) {
       const auto collection = [&] { return b.zeros({optim::UpdateTensors::kGranule}); };
       return [&b, tensors = optim::UpdateTensors{.params = collection(),
                                                  .grads = collection(),
                                                  .moments = {{"mu", collection()}, {"nu", collection()}},
                                                  .step = b.zeros({}, DType::i64),
                                                  .learning_rate = b.zeros({})}] {
         update(optim::adam(1e-3), tensors, b.stream());
       };
     }},
    {"slots",
     [](Bench& b) {
       return [&b, ring = ByteRing{b.zeros({2, 64}, DType::u8), b.zeros({}, DType::i64)}, x = b.zeros({4})] {
         write_slot(ring, 0, x, b.stream());
         read_slot(x, ring, 0, b.stream());
       };
     }},
    {"publish_row",
     [](Bench& b) {
       const ScalarRing ring{.words = static_cast<std::uint64_t*>(b.pinned(64)), .capacity = 2, .columns = 1};
       return [&b, ring, row = b.zeros({}, DType::i64), loss = b.zeros({})] {
         publish_row(ring, row, {loss}, b.stream());
       };
     }},
};

class ErrorChecksCuda : public testing::TestWithParam<Operation> {};
INSTANTIATE_TEST_SUITE_P(Operations, ErrorChecksCuda, testing::ValuesIn(kOperations),
                         [](const auto& info) { return info.param.name; });

// Calls that giro may make between a failure and its report: it resumes a capture that it left to open a library,
// abandons a recording, and sets the current device before it frees something.
const std::set<std::string> kTidying{"cudaSetDevice", "cudaStreamBeginCaptureToGraph", "cudaStreamEndCapture"};

TEST_P(ErrorChecksCuda, EveryFailingCallIsReportedAtOnce) {
  Bench first;  // nvcc's stub of a kernel gets the kernel once per process, and would keep a failure
  GetParam().prepare(first)();
  first.stream().synchronize();

  for (unsigned int nth = 1;; ++nth) {
    Bench bench;
    const auto operation = GetParam().prepare(bench);
    bench.stream().synchronize();
    std::string error;
    cuda_on_cpu_fail("call", nth);
    try {
      operation();
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    std::istringstream calls(cuda_on_cpu_calls_since_failure());
    cuda_on_cpu_fail("call", 0);
    std::string failed;
    if (!(calls >> failed)) {  // the operation makes fewer calls
      EXPECT_EQ(error, "");
      EXPECT_GT(nth, 1u);
      return;
    }
    SCOPED_TRACE(fmt::format("call number {}, {}", nth, failed));
    if (failed == "cudaSetDevice" && error.empty()) {  // before a free
      (void)cudaGetLastError();
      continue;
    }
    // A plan of cuDNN that fails is passed over: another one, or giro's own kernel, does the work.
    if (error.empty() && (failed.starts_with("cudnnBackend") || failed == "cudnnGetStream")) continue;
    EXPECT_NE(error, "") << "giro went on as if nothing had failed";
    for (std::string call; calls >> call;) {
      EXPECT_TRUE(kTidying.contains(call)) << call << " was made before the error was reported: " << error;
    }
    if (HasFailure()) return;
  }
}

TEST(DiscoveryCuda, ReportsWhyThereIsNoDevice) {
  for (const char* call : {"cudaGetDeviceCount", "cudaGetDeviceProperties"}) {
    unsigned int nth = 0;
    std::string failed;
    do {
      cuda_on_cpu_fail("call", ++nth);
      const Discovery discovery = discover_devices();
      failed = std::string(cuda_on_cpu_calls_since_failure());
      failed = failed.substr(0, failed.find(' '));
      cuda_on_cpu_fail("call", 0);
      if (failed != call) continue;
      EXPECT_TRUE(discovery.best().is_cpu());
      EXPECT_NE(discovery.no_cuda_reason.find("unknown error"), std::string::npos) << discovery.no_cuda_reason;
    } while (!failed.empty() && failed != call);
    EXPECT_EQ(failed, call) << "was never called";
  }
}

}  // namespace
}  // namespace giro
