// Tests that no signal reaches a thread while its stack pointer points elsewhere: oneDNN's products of f32 use it as a
// register, and a handler's frame would then be written into the heap. The test's handler has a stack of its own.

#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/matmul.h>
#include <giro/kernels/pool.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "kernels/cpu/hold_signals.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)  // which delivers signals later, elsewhere

constexpr int kThreads = 2;

struct Stack {
  const char* begin = nullptr;
  const char* end = nullptr;
};
thread_local Stack stack_of_thread;
std::atomic<int> looks, astray;

void look(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* const at = reinterpret_cast<const char*>(registers[REG_RSP]);
  if (at < stack_of_thread.begin || at >= stack_of_thread.end) ++astray;
  ++looks;
}

Stack find_stack_of_thread() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  EXPECT_EQ(pthread_attr_getstack(&attributes, &begin, &size), 0);
  pthread_attr_destroy(&attributes);
  return {static_cast<const char*>(begin), static_cast<const char*>(begin) + size};
}

class SignalsTest : public ::testing::Test {
 protected:
  SignalsTest() {
    struct sigaction action {};
    action.sa_sigaction = look;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART;
    sigaction(SIGUSR2, &action, &before_);
    on_each_thread([this](std::size_t i) {
      stack_of_thread = find_stack_of_thread();
      stack_t own{};
      own.ss_sp = handlers_stacks_[i].data();
      own.ss_size = handlers_stacks_[i].size();
      EXPECT_EQ(sigaltstack(&own, &stacks_before_[i]), 0);
      threads_[i] = pthread_self();
    });
  }
  ~SignalsTest() override {
    on_each_thread([this](std::size_t i) { sigaltstack(&stacks_before_[i], nullptr); });
    sigaction(SIGUSR2, &before_, nullptr);
    omp_set_num_threads(threads_before_);
  }

  Tensor tensor(const Shape& shape) {
    buffers_.push_back(Buffer::allocate(Device::cpu(), static_cast<std::size_t>(shape.count()) * sizeof(float)));
    const Tensor made(buffers_.back().data(), DType::f32, shape, Device::cpu());
    std::fill_n(made.data<float>(), shape.count(), 1.0f);
    return made;
  }

  // Runs `compute` again and again while signals arrive on all threads, and looks where their stack pointers are.
  void expect_on_stack(const std::string& what, const std::function<void()>& compute) {
    constexpr int kLooks = 100;
    looks = astray = 0;
    std::jthread signaller([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        for (const pthread_t thread : threads_) pthread_kill(thread, SIGUSR2);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    while (looks < kLooks) compute();
    signaller = {};
    EXPECT_EQ(astray, 0) << what << ": of " << looks << " signals so many arrived with the stack pointer elsewhere";
  }

  const Stream stream_{Device::cpu()};

 private:
  template <class F>
  void on_each_thread(const F& f) {
#pragma omp parallel num_threads(kThreads)
    f(static_cast<std::size_t>(omp_get_thread_num()));
    omp_set_num_threads(kThreads);
  }

  struct sigaction before_ {};
  std::array<std::array<char, 1 << 16>, kThreads> handlers_stacks_;
  std::array<stack_t, kThreads> stacks_before_;
  std::array<pthread_t, kThreads> threads_;
  const int threads_before_ = omp_get_max_threads();
  std::vector<Buffer> buffers_;
};

TEST_F(SignalsTest, ArriveOnTheStackOfAThreadThatMultiplies) {
  // rows, inputs, outputs: on one thread, then on two
  for (const auto& [m, k, n] :
       {std::array<std::int64_t, 3>{32, 784, 256}, {7, 500, 33}, {64, 64, 64}, {256, 768, 768}}) {
    const Tensor x = tensor({m, k}), w = tensor({k, n}), b = tensor({n}), dz = tensor({m, n});
    const Tensor y = tensor({m, n}), dx = tensor({m, k}), dw = tensor({k, n}), db = tensor({n});
    const std::string of = " of " + to_string(x.shape()) + " and " + to_string(w.shape());
    expect_on_stack("y" + of, [&] { dense(y, x, w, b, stream_); });
    expect_on_stack("gradients" + of, [&] { dense_backward(dx, dw, db, dz, x, w, stream_); });
  }
  for (const bool transpose_a : {false, true}) {
    const Tensor a = tensor(transpose_a ? Shape{8, 300, 100} : Shape{8, 100, 300}), b = tensor({8, 300, 50});
    const Tensor out = tensor({8, 100, 50});
    expect_on_stack("a batch of products",
                    [&] { matmul(out, a, b, {.transpose_a = transpose_a}, MathMode::f32, stream_); });
  }
}

// Some of oneDNN's convolutions are products, depending on the processor.
TEST_F(SignalsTest, ArriveOnTheStackOfAThreadThatConvolves) {
  for (const std::int64_t channels : {3, 24, 32}) {
    for (const std::int64_t groups : {std::int64_t{1}, channels}) {
      const Conv2dOptions options{.pad_before = {2, 2}, .pad_after = {2, 2}, .dilation = {2, 2}, .groups = groups};
      const std::int64_t features = 2 * channels;
      const Tensor x = tensor({8, 20, 20, channels}), w = tensor({features, 3, 3, channels / groups});
      const Tensor b = tensor({features}), y = tensor({8, 20, 20, features}), dz = tensor(y.shape());
      const Tensor dx = tensor(x.shape()), dw = tensor(w.shape()), db = tensor(b.shape());
      const std::string of = " of " + to_string(x.shape()) + " and " + to_string(w.shape());
      expect_on_stack("y" + of, [&] { conv2d(y, x, w, b, options, stream_); });
      expect_on_stack("gradients" + of, [&] { conv2d_backward(dx, dw, db, dz, x, w, options, stream_); });
    }
  }
  const PoolOptions options{.window = {3, 3}, .stride = {2, 2}};
  const Tensor x = tensor({8, 15, 15, 24}), y = tensor(pool_shape(x.shape(), options));
  expect_on_stack("a pooling", [&] { avg_pool(y, x, options, stream_); });
}

#endif

std::atomic<int> heard = 0;

TEST(HoldSignalsTest, ASignalWaitsForItsEndAndTheMaskIsTheProgramsAgain) {
  const auto before = signal(SIGUSR2, [](int) { ++heard; });
  sigset_t of_program, now;
  sigemptyset(&of_program);
  sigaddset(&of_program, SIGALRM);
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, &of_program, &mask);
  {
    const cpu::HoldSignals hold;
    {
      const cpu::HoldSignals nested;
      raise(SIGUSR2);
    }
    EXPECT_EQ(heard, 0);
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    EXPECT_EQ(sigismember(&now, SIGTERM), 1);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) EXPECT_EQ(sigismember(&now, fault), 0) << fault;
  }
  EXPECT_EQ(heard, 1);
  pthread_sigmask(SIG_SETMASK, &mask, &now);
  EXPECT_EQ(sigismember(&now, SIGALRM), 1);
  EXPECT_EQ(sigismember(&now, SIGTERM), 0);
  signal(SIGUSR2, before);
}

}  // namespace
}  // namespace giro
