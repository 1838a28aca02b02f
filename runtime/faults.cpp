#include "runtime/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include <giro/runtime/step_context.h>

#include "runtime/backend.h"
#include "runtime/call_site.h"

namespace giro::detail {

bool Faults::Check::is_same(const Check& other) const {
  return element == other.element && elements == other.elements && size == other.size && step == other.step &&
         call == other.call && where.line() == other.where.line() &&
         std::string_view(where.file_name()) == other.where.file_name();
}

std::uint64_t Faults::Check::read(int word) const {
  return std::atomic_ref(words[word]).load(std::memory_order_acquire);
}

void Faults::Check::forget() const {
  for (const int word : {0, 1}) std::atomic_ref(words[word]).store(kNone, std::memory_order_release);
}

Error Faults::Check::error() const {
  const std::uint64_t place = read(0);
  const auto value = static_cast<std::int32_t>(read(1));
  const auto at = static_cast<std::uint32_t>(place);
  const std::uint64_t number = (place >> 32) + 1;
  // Larger numbers were clamped.
  const std::string_view or_beyond = value == INT32_MAX ? " or more" : value == INT32_MIN ? " or less" : "";
  const auto site = CallSite::of_node(where);
  return Error(
      ErrorCode::invalid_argument,
      fmt::format("{} {}{} at position {} of {}{}, expected at least 0 and below {}", element, value, or_beyond, at,
                  elements, call != nullptr ? fmt::format(" in call {} of {}", number, step) : "", size));
}

Fault Faults::of(const Stream& stream, const std::string& element, const Tensor& elements, std::int64_t size) {
  if (StreamRecording::is_dry() || elements.count() == 0) return {};
  const StepContext& step = StepScope::current();
  const bool is_of_step = step.stream != nullptr && *step.stream == stream;
  const Tensor call = is_of_step ? *step.call : Tensor();
  Check check{element,    fmt::format("{}{}", name_of(elements.dtype()), to_string(elements.shape())),
              size,       is_of_step ? *step.name : "",
              call.raw(), CallSite::where()};
  Faults& faults = stream.impl().faults;
  const std::lock_guard lock(faults.mutex_);
  std::vector<Check>& checks = faults.checks_;
  auto found = std::ranges::find_if(checks, [&](const Check& one) { return one.is_same(check); });
  if (found == checks.end()) {
    const std::size_t at = checks.size() % kChecks;
    check.block = at > 0 ? checks.back().block
                         : std::make_shared<const Buffer>(Buffer::allocate(
                               stream.device(), kChecks * 2 * sizeof(std::uint64_t), MemoryKind::pinned));
    check.words = static_cast<std::uint64_t*>(check.block->data()) + 2 * at;
    check.forget();
    found = checks.insert(checks.end(), check);
  }
  if (StreamRecording* const recording = StreamRecording::current()) {
    recording->keep(found->block, found->block->place());
  }
  return {found->words, call};
}

void Faults::expect_none() {
  const std::lock_guard lock(mutex_);
  const auto first = std::ranges::min_element(checks_, {}, [](const Check& check) { return check.read(0) >> 32; });
  if (first == checks_.end() || first->read(0) == kNone) return;
  const Error error = first->error();
  for (const Check& check : checks_) check.forget();
  throw error;
}

void Faults::forget() {
  const std::lock_guard lock(mutex_);
  for (const Check& check : checks_) check.forget();
}

void Faults::expect_none_seen(const Stream& stream, const Tensor& call, std::int64_t number) {
  Faults& faults = stream.impl().faults;
  const bool any = [&] {
    const std::lock_guard lock(faults.mutex_);
    return std::ranges::any_of(faults.checks_, [&](const Check& check) {
      const std::uint64_t word = check.call == call.raw() ? check.read(0) : kNone;
      return word != kNone && word >> 32 <= static_cast<std::uint32_t>(number);
    });
  }();
  if (any) stream.synchronize();
}

}  // namespace giro::detail
