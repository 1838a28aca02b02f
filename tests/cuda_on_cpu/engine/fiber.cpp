#include "tests/cuda_on_cpu/engine/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "giro_simt_switch is written for x86-64 only"
#endif

// Saves the callee-saved registers and the stack pointer in *save, and loads those of `to`. ucontext makes a system
// call for this each time and is twenty times slower.
extern "C" void giro_simt_switch(void** save, void* to);
asm(R"(
.text
.globl giro_simt_switch
.hidden giro_simt_switch
.type giro_simt_switch,@function
giro_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size giro_simt_switch,.-giro_simt_switch
)");

namespace giro::simt {
namespace {

// A frame of tcc's has a place for each register of the PTX, 78 kB in the largest kernel of giro; the translator
// refuses more than MAX_FRAME (ptx/c_file.py). Below the stack lies as much that faults.
constexpr std::size_t kStackBytes = 256 << 10, kGuardBytes = kStackBytes;
constexpr int kSavedRegisters = 6;

Fiber* running = nullptr;

}  // namespace

Fiber::~Fiber() {
  if (stack_ != nullptr) munmap(stack_, kGuardBytes + kStackBytes);
}

void Fiber::run(Entry entry, void* argument) {
  if (stack_ == nullptr) {
    void* mapped = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapped, kGuardBytes, PROT_NONE);
    stack_ = mapped;
  }
  if (!paused_) {
#if defined(__SANITIZE_ADDRESS__)
    // Clears the frames left by an abandoned function, or by begin(), which never returns.
    __asan_unpoison_memory_region(static_cast<char*>(stack_) + kGuardBytes, kStackBytes);
#endif
    entry_ = entry;
    argument_ = argument;
    // Lays out the stack as giro_simt_switch leaves it: saved registers, then the return address, which is begin(). The
    // unused return address above them gives the alignment that any function expects at entry.
    auto* top = reinterpret_cast<std::uintptr_t*>(static_cast<char*>(stack_) + kGuardBytes + kStackBytes);
    *--top = 0;
    *--top = reinterpret_cast<std::uintptr_t>(&Fiber::begin);
    for (int i = 0; i < kSavedRegisters; ++i) *--top = 0;
    stack_pointer_ = top;
  }
  paused_ = false;
  Fiber* outer = std::exchange(running, this);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack_, static_cast<char*>(stack_) + kGuardBytes, kStackBytes);
#endif
  giro_simt_switch(&caller_stack_pointer_, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
  running = outer;
}

void Fiber::begin() {
  Fiber& fiber = *running;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber.caller_stack_, &fiber.caller_stack_bytes_);
#endif
  fiber.entry_(fiber.argument_);
  fiber.leave(true);
  __builtin_unreachable();
}

void Fiber::pause() {
  paused_ = true;
  leave(false);
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
  giro_simt_switch(&stack_pointer_, caller_stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace giro::simt
