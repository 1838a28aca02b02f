#include <giro/loop/interrupt.h>

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace giro::detail {
namespace {

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};

std::atomic<int>& asked = interrupt_asked;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");
std::mutex mutex;
int scopes = 0;
thread_local int left_to_program = 0;  // scopes of this thread
std::array<struct sigaction, kSignals.size()> before;

void handle(int signal) {
  if (asked.exchange(signal) == 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  raise(signal);
}

}  // namespace

InterruptScope::InterruptScope(bool enabled) : enabled_(enabled && left_to_program == 0), leaves_to_program_(!enabled) {
  if (leaves_to_program_) ++left_to_program;
  if (!enabled_) return;
  const std::lock_guard lock(mutex);
  if (scopes++ > 0) return;
  asked = 0;
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &ours, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  if (leaves_to_program_) --left_to_program;
  if (!enabled_) return;
  const std::lock_guard lock(mutex);
  if (--scopes > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  asked = 0;
}

}  // namespace giro::detail
