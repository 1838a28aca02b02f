#include <giro/loop/interrupt.h>

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace giro::detail {
namespace {

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGUSR1};
constexpr std::size_t kEnding = 2;  // of the signals: those that ask to end

static_assert(std::atomic<unsigned>::is_always_lock_free, "a signal handler writes it");
std::mutex mutex;
int scopes = 0;
std::size_t handled = 0;               // of the signals
thread_local int left_to_program = 0;  // scopes of this thread
thread_local int saving = 0;           // likewise
std::array<struct sigaction, kSignals.size()> before;

void handle(int signal) {
  if (signal == kSignals[kEnding]) {
    signals_asked.fetch_or(kSaveAsked);
    return;
  }
  if ((signals_asked.fetch_or(static_cast<unsigned>(signal)) & kEndSignal) == 0) return;
  for (std::size_t i = 0; i < kEnding; ++i) {
    if (kSignals[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  raise(signal);
}

}  // namespace

InterruptScope::InterruptScope(bool enabled, bool saves)
    : enabled_(enabled && left_to_program == 0), leaves_to_program_(!enabled), saves_(enabled_ && saves) {
  if (leaves_to_program_) ++left_to_program;
  if (saves_) ++saving;
  if (!enabled_) return;
  const std::lock_guard lock(mutex);
  if (scopes++ == 0) signals_asked = 0;
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART;
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
  signals_asked = 0;
}

bool is_in_saving_loop() noexcept { return saving > 0; }

}  // namespace giro::detail
