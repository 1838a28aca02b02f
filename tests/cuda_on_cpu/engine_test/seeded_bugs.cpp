// Tests that every bug of seeded_bugs.cu is found with each seed, and reported with the right line.

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

namespace giro::simt {
namespace {

constexpr unsigned int kThreads = 64;
const std::string kSource = GIRO_SEEDED_BUGS_CU;

// The lines of seeded_bugs.cu marked "BUG name", as reports write them.
std::set<std::string> lines_of(const std::string& name) {
  std::set<std::string> lines;
  std::ifstream file(kSource);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.ends_with("// BUG " + name)) lines.insert("seeded_bugs.cu:" + std::to_string(line));
  }
  return lines;
}

void expect_report(const Outcome& outcome, Fault fault, const std::string& name) {
  // A reader that runs before the writer that it should wait for finds uninitialised memory.
  const bool too_early = fault == Fault::race && outcome.fault == Fault::uninitialised;
  EXPECT_TRUE(outcome.fault == fault || too_early) << outcome.message;
  const std::set<std::string> lines = lines_of(name);
  EXPECT_FALSE(lines.empty());
  // Every line that the report names must belong to the bug, and it must name at least one.
  std::size_t named = 0;
  for (std::size_t at = 0; (at = outcome.message.find("seeded_bugs.cu:", at)) != std::string::npos; ++named) {
    const std::size_t end = outcome.message.find_first_not_of("0123456789", at + 15);
    const std::string line = outcome.message.substr(at, end - at);
    EXPECT_TRUE(lines.contains(line)) << line << " in: " << outcome.message;
    at += 15;
  }
  EXPECT_GT(named, 0u) << outcome.message;
}

template <class T = float>
std::vector<T> counting(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

struct Bug {
  const char* name;
  Fault fault;
  unsigned int blocks = 1;
  std::size_t dynamic_shared_bytes = 0;
};

std::ostream& operator<<(std::ostream& out, const Bug& bug) { return out << bug.name; }

class BugInOneKernel : public testing::TestWithParam<Bug> {};

TEST_P(BugInOneKernel, IsReported) {
  const Bug& bug = GetParam();
  Seeds::each([&] {
    DeviceArray<float> y(counting(128)), x(counting(128));
    expect_report(run(kernel_named(bug.name), {bug.blocks}, {kThreads}, bug.dynamic_shared_bytes, y.data(), x.data()),
                  bug.fault, bug.name);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Bugs, BugInOneKernel,
    testing::Values(Bug{"missing_syncthreads", Fault::race}, Bug{"missing_second_syncthreads", Fault::race},
                    Bug{"missing_syncwarp", Fault::race}, Bug{"syncwarp_of_too_few", Fault::race},
                    Bug{"shuffle_for_syncwarp", Fault::race}, Bug{"syncwarp_for_syncthreads", Fault::race},
                    Bug{"write_write_race", Fault::race}, Bug{"cross_block_write", Fault::race, 2},
                    Bug{"cross_block_read", Fault::race, 2}, Bug{"overwritten_before_all_have_read", Fault::race},
                    Bug{"overwritten_before_the_first_lane_has_read", Fault::race},
                    Bug{"shared_out_of_bounds", Fault::illegal_address, 1, 64 * sizeof(float)},
                    Bug{"barrier_after_exit", Fault::divergence}, Bug{"divergent_barriers", Fault::divergence},
                    Bug{"shuffle_with_exited_lane", Fault::divergence}, Bug{"mask_without_caller", Fault::divergence},
                    Bug{"divergent_shuffles", Fault::divergence}, Bug{"product_with_exited_lane", Fault::divergence}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SeededBugs, barrier_and_warp_deadlock) {
  DeviceArray<float> y(counting(128)), x(counting(128));
  const Outcome outcome = run(kernel_named("barrier_and_warp_deadlock"), {1}, {kThreads}, 0, y.data(), x.data());
  EXPECT_EQ(static_cast<int>(outcome.fault), static_cast<int>(Fault::divergence)) << outcome.message;
  for (const std::string& line : lines_of("barrier_and_warp_deadlock")) {
    EXPECT_NE(outcome.message.find(line), std::string::npos) << outcome.message;
  }
}

TEST(SeededBugs, updates_that_are_not_atomic) {
  Seeds::each([&] {
    for (const char* name : {"non_atomic_update", "half_atomic_update"}) {
      DeviceArray<int> count(std::vector<int>{0});
      expect_report(run(kernel_named(name), {1}, {kThreads}, 0, count.data()), Fault::race, name);
    }
    for (const char* name : {"atomics_of_one_block", "zeroed_by_one_block"}) {
      DeviceArray<int> count(std::vector<int>{0});
      expect_report(run(kernel_named(name), {3}, {kThreads}, 0, count.data()), Fault::race, name);
    }
  });
}

TEST(SeededBugs, data_that_is_not_published) {
  Seeds::each([&] {
    const auto expect_race = [](const char* name, unsigned int threads, unsigned int blocks = 2) {
      DeviceArray<float> y(std::vector<float>(65)), x(counting(32));
      DeviceArray<int> tickets(std::vector<int>(4, 0));
      expect_report(run(kernel_named(name), {blocks}, {threads}, 0, y.data(), x.data(), tickets.data()), Fault::race,
                    name);
    };
    expect_race("missing_threadfence", kThreads);
    expect_race("fence_before_the_data", 1);
    expect_race("fence_for_the_block_only", 1);
    expect_race("missing_fence_of_the_reader", 1);
    expect_race("published_once_written_twice", 1);
    expect_race("fence_before_the_barrier", 32);
    expect_race("acquire_for_a_release", 1);
    expect_race("release_for_an_acquire", 1);
    expect_race("passed_on_by_an_older_fence", 2, 3);
    expect_race("passed_on_by_a_fence_of_the_block", 1, 3);
    expect_race("hidden_by_an_atomic_of_the_block", 33);
    expect_race("published_by_a_swap_that_fails", 1);
    expect_race("atomics_of_two_sizes", 1);
  });
}

TEST(SeededBugs, missing_volatile_flag) {
  Seeds::each([&] {
    DeviceArray<float> y(counting(2));
    DeviceArray<int> flag(std::vector<int>{0});
    expect_report(run(kernel_named("missing_volatile_flag"), {1}, {kThreads}, 0, y.data(), flag.data()), Fault::race,
                  "missing_volatile_flag");
  });
}

TEST(SeededBugs, accesses_out_of_bounds) {
  Seeds::each([&] {
    for (const char* name : {"out_of_bounds_read", "out_of_bounds_write"}) {
      DeviceArray<float> y(kThreads), x(counting(128));
      expect_report(run(kernel_named(name), {1}, {kThreads}, 0, y.data(), x.data()), Fault::illegal_address, name);
    }
  });
}

TEST(SeededBugs, use_after_free) {
  DeviceArray<float> y(kThreads), x(counting(kThreads));
  x.free();
  const Outcome outcome = run(kernel_named("use_after_free"), {1}, {kThreads}, 0, y.data(), x.data());
  expect_report(outcome, Fault::illegal_address, "use_after_free");
  EXPECT_NE(outcome.message.find("was freed"), std::string::npos) << outcome.message;
}

TEST(SeededBugs, misaligned) {
  DeviceArray<float> y(kThreads), x(counting(128));
  expect_report(run(kernel_named("misaligned"), {1}, {kThreads}, 0, y.data(), reinterpret_cast<char*>(x.data())),
                Fault::misaligned_address, "misaligned");
}

TEST(SeededBugs, host_pointer) {
  DeviceArray<float> y(kThreads);
  const std::vector<float> x = counting(kThreads);
  expect_report(run(kernel_named("host_pointer"), {1}, {kThreads}, 0, y.data(), x.data()), Fault::illegal_address,
                "host_pointer");
}

TEST(SeededBugs, reads_of_uninitialised_memory) {
  Seeds::each([&] {
    DeviceArray<float> y(kThreads), fresh(kThreads);
    expect_report(run(kernel_named("uninitialised_shared"), {1}, {kThreads}, 0, y.data()), Fault::uninitialised,
                  "uninitialised_shared");
    expect_report(run(kernel_named("uninitialised_global"), {1}, {kThreads}, 0, y.data(), fresh.data()),
                  Fault::uninitialised, "uninitialised_global");
    EXPECT_EQ(memory().write(fresh.data(), 3 * sizeof(float), 0, "copy"), "");
    expect_report(run(kernel_named("partly_uninitialised"), {1}, {kThreads}, 0, y.data(), fresh.data()),
                  Fault::uninitialised, "partly_uninitialised");
  });
}

TEST(SeededBugs, loops_that_do_not_end) {
  const Options before = options();
  options().watchdog = 1 << 18;
  DeviceArray<float> y(counting(kThreads));
  expect_report(run(kernel_named("endless_loop"), {1}, {1}, 0, y.data()), Fault::timeout, "endless_loop");
  DeviceArray<int> flag(std::vector<int>{0, 0});
  expect_report(run(kernel_named("waits_for_other_block"), {2}, {kThreads}, 0, flag.data()), Fault::timeout,
                "waits_for_other_block");
  options() = before;
}

TEST(SeededBugs, trapping) {
  DeviceArray<float> y(counting(kThreads));
  expect_report(run(kernel_named("trapping"), {1}, {kThreads}, 0, y.data()), Fault::trap, "trapping");
}

// The engine still works after any of these bugs.
TEST(SeededBugs, leave_the_engine_usable) {
  DeviceArray<float> y(counting(128)), x(counting(128));
  EXPECT_FALSE(run(kernel_named("divergent_barriers"), {1}, {kThreads}, 0, y.data(), x.data()));
  DeviceArray<float> z(kThreads);
  const Outcome outcome =
      run(kernel_named("reverse_through_shared"), {1}, {kThreads}, kThreads * sizeof(float), z.data(), x.data());
  EXPECT_TRUE(outcome) << outcome.message;
  EXPECT_EQ(z.values().front(), 63.0f);
}

// Nothing orders the work of the two streams.
TEST(SeededBugs, operations_that_are_not_ordered) {
  const auto before = std::exchange(memory().happens_before, [](Operation, Operation) { return false; });
  DeviceArray<float> y(kThreads), x(counting(kThreads));
  const Kernel& kernel = kernel_named("use_after_free");  // correct as long as nothing is freed
  const auto launch_as = [&](Operation operation) {
    const float* from = x.data();
    float* to = y.data();
    void* arguments[] = {&to, &from};
    return launch(kernel, {.grid = {1}, .block = {kThreads}, .arguments = arguments, .operation = operation});
  };
  EXPECT_EQ(memory().write(x.data(), kThreads * sizeof(float), 1, "cudaMemcpyAsync"), "");
  const Outcome outcome = launch_as(2);
  EXPECT_EQ(static_cast<int>(outcome.fault), static_cast<int>(Fault::race)) << outcome.message;
  EXPECT_NE(outcome.message.find("cudaMemcpyAsync"), std::string::npos) << outcome.message;

  memory().happens_before = [](Operation earlier, Operation) { return earlier == 1; };
  EXPECT_TRUE(launch_as(3));
  const std::string race = memory().read(y.data(), kThreads * sizeof(float), 4, "cudaMemcpyAsync");
  EXPECT_NE(race.find("seeded_bugs.cu"), std::string::npos) << race;
  EXPECT_NE(memory().write(x.data(), kThreads * sizeof(float), 5, "cudaMemsetAsync"), "");

  memory().happens_before = [](Operation, Operation) { return true; };
  EXPECT_EQ(memory().read(y.data(), kThreads * sizeof(float), 6, "cudaMemcpyAsync"), "");
  memory().happens_before = before;
}

// A kernel on one stream reads. Another stream reads, then writes: nothing orders the first read before the write.
TEST(SeededBugs, write_after_the_older_of_two_reads) {
  const auto all_but_the_first = [](Operation earlier, Operation) { return earlier != 1; };
  const auto before = std::exchange(memory().happens_before, all_but_the_first);
  const Kernel& kernel = kernel_named("use_after_free");
  for (const bool by_copies : {false, true}) {
    // Part of a page, and a whole page, which is remembered as one.
    for (const std::size_t count : {std::size_t{kThreads}, Shadow::kPageBytes / sizeof(float)}) {
      DeviceArray<float> x(counting(count)), y(counting(kThreads)), z(counting(kThreads));
      const auto read = [&](Operation operation, float* to) {
        if (by_copies) {
          EXPECT_EQ(memory().read(x.data(), count * sizeof(float), operation, "cudaMemcpyAsync"), "");
          return;
        }
        const float* from = x.data();
        void* arguments[] = {&to, &from};
        EXPECT_TRUE(launch(kernel, {.grid = {1}, .block = {kThreads}, .arguments = arguments, .operation = operation}));
      };
      read(1, y.data());
      read(2, z.data());
      const std::string race = memory().write(x.data(), count * sizeof(float), 3, "cudaMemsetAsync");
      EXPECT_NE(race.find(by_copies ? "read at cudaMemcpyAsync" : "seeded_bugs.cu:"), std::string::npos) << race;
    }
  }
  memory().happens_before = before;
}

TEST(SeededBugs, launches_that_cuda_refuses) {
  DeviceArray<float> y(counting(128)), x(counting(128));
  const Kernel& kernel = kernel_named("missing_syncthreads");
  const auto fault = [&](Dim3 grid, Dim3 block, std::size_t shared) {
    return static_cast<int>(
        check_configuration(kernel, {.grid = grid, .block = block, .dynamic_shared_bytes = shared}).fault);
  };
  const int refused = static_cast<int>(Fault::invalid_configuration);
  EXPECT_EQ(fault({0}, {64}, 0), refused);
  EXPECT_EQ(fault({1}, {1025}, 0), refused);
  EXPECT_EQ(fault({1}, {1, 1, 65}, 0), refused);
  EXPECT_EQ(fault({1, 65536}, {64}, 0), refused);
  EXPECT_EQ(fault({1}, {64}, 48 << 10), refused);
  EXPECT_EQ(fault({1}, {64}, (48 << 10) - 64 * sizeof(float)), static_cast<int>(Fault::none));
}

}  // namespace
}  // namespace giro::simt
