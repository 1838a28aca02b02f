#include <giro/loop/interrupt.h>

#include <signal.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace giro::detail {
namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGUSR1};
constexpr std::size_t kEnding = 2;  // the signals before this index ask to end

constexpr std::chrono::nanoseconds kSameInterrupt = std::chrono::milliseconds(500);

static_assert(std::atomic<unsigned>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler writes them");
std::atomic<std::int64_t> first_interrupt = 0;  // when the first SIGINT came, in nanoseconds of the steady clock, or 0
std::mutex mutex;
int scopes = 0;
std::size_t handled = 0;               // how many of kSignals are handled
thread_local int left_to_program = 0;  // scopes of this thread that are not enabled
thread_local int saving = 0;           // scopes of this thread that save
std::array<struct sigaction, kSignals.size()> before;

void forget() {
  pending_signals = 0;
  first_interrupt = 0;
}

void handle(int signal) {
  if (signal == kSignals[kEnding]) {
    pending_signals.fetch_or(kSaveRequested);
    return;
  }
  unsigned asked = pending_signals;
  while ((asked & kEndSignal) == 0 && !pending_signals.compare_exchange_weak(asked, asked | unsigned(signal))) continue;
  if (signal != SIGINT) return;
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  std::int64_t first = 0;
  if (first_interrupt.compare_exchange_strong(first, now.count()) || now.count() - first < kSameInterrupt.count()) {
    return;
  }
  sigaction(SIGINT, &before[0], nullptr);
  raise(SIGINT);
}

}  // namespace

InterruptScope::InterruptScope(bool enabled, bool saves)
    : enabled_(enabled && left_to_program == 0), leaves_to_program_(!enabled), saves_(enabled_ && saves) {
  if (leaves_to_program_) ++left_to_program;
  if (saves_) ++saving;
  if (!enabled_) return;
  const std::lock_guard lock(mutex);
  if (scopes++ == 0) forget();
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;  // for a program whose own threads keep something else in the stack pointer
  for (; handled < (saves ? kSignals.size() : kEnding); ++handled) {
    sigaction(kSignals[handled], nullptr, &before[handled]);
    if (before[handled].sa_handler != SIG_IGN) sigaction(kSignals[handled], &ours, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  if (leaves_to_program_) --left_to_program;
  if (saves_) --saving;
  if (!enabled_) return;
  const std::lock_guard lock(mutex);
  if (--scopes > 0) return;
  for (; handled > 0; --handled) sigaction(kSignals[handled - 1], &before[handled - 1], nullptr);
  forget();
}

bool is_in_saving_loop() noexcept { return saving > 0; }

}  // namespace giro::detail
