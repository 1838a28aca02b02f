#include "tests/cuda_on_cpu/engine/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <numeric>

#include "tests/cuda_on_cpu/engine/race_check.h"
#include "tests/cuda_on_cpu/engine/sites.h"

namespace giro::simt {
namespace {

constexpr int kPoison = 0xff;  // a NaN in every float type, and an index far out of bounds
constexpr std::align_val_t kSharedAlignment{1024};

}  // namespace

void Block::FreeShared::operator()(char* memory) const { ::operator delete(memory, kSharedAlignment); }

void Block::begin_launch(const Kernel& kernel, const Launch& launch) {
  kernel_ = &kernel;
  size_ = launch.block;
  grid_size_ = launch.grid;
  checks_races_ = options().race_check;
  last_allocations_.fill(nullptr);
  stop_.reset();

  parameters_.assign(kernel.parameter_bytes, 0);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& parameter = kernel.parameters[i];
    std::memcpy(parameters_.data() + parameter.offset, launch.arguments[i], parameter.bytes);
  }

  const std::size_t shared_bytes = kernel.static_shared_bytes + launch.dynamic_shared_bytes;
  if (shared_bytes != shared_bytes_) {
    shared_bytes_ = shared_bytes;
    shared_.reset(shared_bytes == 0 ? nullptr : static_cast<char*>(::operator new(shared_bytes, kSharedAlignment)));
    shared_shadow_.emplace(shared_bytes, false);
  }

  thread_count_ = static_cast<unsigned int>(size_.count());
  while (threads_.size() < thread_count_) threads_.push_back(std::make_unique<Thread>());
  order_.resize(thread_count_);
  std::iota(order_.begin(), order_.end(), 0u);
  for (unsigned int i = 0; i < thread_count_; ++i) {
    Thread& thread = *threads_[i];
    thread.block = this;
    thread.linear = i;
    thread.block_index = &index_;
    thread.block_size = &size_;
    thread.grid_size = &grid_size_;
    thread.parameters = parameters_.data();
    thread.index = {i % size_.x, i / size_.x % size_.y, i / (size_.x * size_.y)};
  }
}

std::optional<Stop> Block::run(const Dim3& index, std::mt19937_64& random) {
  index_ = index;
  if (shared_bytes_ > 0) {
    std::memset(shared_.get(), kPoison, shared_bytes_);
    shared_shadow_->set_initialised(0, shared_bytes_, false);
  }
  if (checks_races_) race_check().begin_block();
  alive_ = thread_count_;
  at_barrier_ = 0;
  lanes_.assign((thread_count_ + Limits::kWarp - 1) / Limits::kWarp, {});
  for (unsigned int i = 0; i < thread_count_; ++i) threads_[i]->reset();
  std::shuffle(order_.begin(), order_.end(), random);
  try {
    if (kernel_->waits) {
      run_together();
    } else {
      run_in_turn();
    }
  } catch (const Stop& stop) {
    stop_ = stop;
  }
  if (stop_) {
    for (auto& thread : threads_) thread->fiber.abandon();
  }
  return stop_;
}

void Block::run_in_turn() {
  for (const unsigned int i : order_) {
    threads_[i]->run();
    if (stop_) return;
  }
}

void Block::run_together() {
  const auto run_fiber = [](void* thread) {
    auto* self = static_cast<Thread*>(thread);
    self->block->run_thread(*self);
  };
  while (alive_ > 0) {
    bool progress = false;
    for (const unsigned int i : order_) {
      Thread& thread = *threads_[i];
      if (thread.state != Thread::State::ready) continue;
      thread.fiber.run(run_fiber, &thread);
      progress = true;
      if (stop_) return;
    }
    if (alive_ > 0 && at_barrier_ == alive_) {
      release_barrier();
    } else if (!progress) {
      report_deadlock();
    }
  }
}

// Runs on the thread's own stack.
void Block::run_thread(Thread& thread) {
  thread.run();
  thread.state = Thread::State::done;
  lanes_[thread.warp()].exited |= 1u << thread.lane();
  --alive_;
}

std::uint32_t Block::barrier(Thread& thread) {
  thread.state = Thread::State::at_barrier;
  ++at_barrier_;
  thread.fiber.pause();
  return barrier_votes_;
}

void Block::release_barrier() {
  const Thread* first = nullptr;
  barrier_votes_ = 0;
  for (unsigned int i = 0; i < thread_count_; ++i) {
    Thread& thread = *threads_[i];
    if (thread.state != Thread::State::at_barrier) continue;
    if (first == nullptr) first = &thread;
    if (alive_ != thread_count_) {
      stop(thread, Fault::divergence,
           "__syncthreads that is not reached by all threads of the block:" + describe_thread_positions(),
           thread.barrier_site);
    }
    if (first->barrier_site != thread.barrier_site) {
      stop(thread, Fault::divergence, "divergent __syncthreads:" + describe_thread_positions(), thread.barrier_site);
    }
    barrier_votes_ += thread.barrier_vote;
    thread.state = Thread::State::ready;
  }
  at_barrier_ = 0;
  if (checks_races_) race_check().block_barrier();
}

void Block::report_deadlock() const {
  const auto waiting = std::find_if(threads_.begin(), threads_.begin() + thread_count_,
                                    [](const auto& thread) { return thread->state != Thread::State::done; });
  const Thread& thread = **waiting;
  stop(thread, Fault::divergence, "no thread of the block can continue:" + describe_thread_positions(),
       thread.state == Thread::State::at_barrier ? thread.barrier_site : thread.warp_call.site);
}

std::string Block::describe_thread_positions() const {
  std::map<std::string, std::vector<unsigned int>> places;
  for (unsigned int i = 0; i < thread_count_; ++i) {
    const Thread& thread = *threads_[i];
    const auto at = [&](std::uint32_t site) { return site_text(kernel_->first_site + site); };
    switch (thread.state) {
      case Thread::State::done:
        places["exited"].push_back(i);
        break;
      case Thread::State::at_warp:
        places[fmt::format("in a warp operation at {}", at(thread.warp_call.site))].push_back(i);
        break;
      default:
        places[fmt::format("at the barrier at {}", at(thread.barrier_site))].push_back(i);
    }
  }
  std::string text;
  for (const auto& [place, threads] : places) {
    text += fmt::format("\n    {} thread(s), {} to {}: {}", threads.size(), threads.front(), threads.back(), place);
  }
  return text;
}

}  // namespace giro::simt
