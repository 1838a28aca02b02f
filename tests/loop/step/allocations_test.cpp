// The host allocations of a loop's steps. Sanitizers have their own allocators.

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/kernels/nn/models.h"
#include "tests/support/tensor_ops.h"

namespace {
std::atomic<std::int64_t> allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
// noinline: otherwise GCC warns that free does not match new.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace giro {
namespace {

constexpr std::int64_t kFirst = 2'000, kSteps = 6'400;

// The allocations of kSteps steps, after everything that is made only once.
std::int64_t allocations_of(const std::vector<Task<State, Batch>>& tasks) {
  const Dataset dataset = test::image_dataset(70, 4).shuffle(3).repeat().batch(2).to(Device::cpu());
  State state(Device::cpu());
  state.add("count", {{"", DType::i64, {}}});
  giro::Run run(std::move(state), dataset, tasks, {.steps_per_execution = 32});
  EXPECT_EQ(run.advance(at(kFirst)), StopReason::reached);
  const std::int64_t before = allocations;
  EXPECT_EQ(run.advance(at(kFirst + kSteps)), StopReason::reached);
  return allocations - before;
}

// The history allocates one block per 64 values of a column, and has eight columns here. Nothing else allocates.
TEST(Allocations, StepThatLogsFourScalarsAllocatesNothing) {
  const auto step = jit([](State& state, const Batch&, const Broadcasts&) {
    increment(state.at("count"), 1, state.stream());
    const nn::Var count(state.at("count"), state.stream());
    return logs().add_metric("a", count).add_metric("b", count).add_loss("c", count).add_metric("d", count);
  });
  std::int64_t observed = 0;
  const std::vector<Task<State, Batch>> tasks{
      {every(1), step}, {every(1), [&](const Elapsed&, const Logs& logs) { observed += logs.empty() ? 0 : 1; }}};
  EXPECT_LE(allocations_of(tasks), kSteps / 64 * 8 + 16);
  EXPECT_EQ(observed, kFirst + kSteps);
}

TEST(Allocations, StepThatLogsNothingAllocatesNothing) {
  const auto step = jit([](State& state, const Batch&) {
    increment(state.at("count"), 1, state.stream());
    return Logs();
  });
  EXPECT_LE(allocations_of({{every(1), step}, {every(2), step}}), 16);
}

}  // namespace
}  // namespace giro

#endif
