#include <giro/kernels/nn/partitioner.h>

#include <fmt/format.h>

#include <exception>

#include <giro/runtime/error.h>

#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr char kDecided = '+';  // what follows is the decision; else an error's code and message

}  // namespace

std::string decide_on_rank_0(const Partitioner* ranks, const std::function<std::string()>& decide) {
  if (ranks == nullptr || ranks->size() == 1) return decide();
  std::string said;
  std::exception_ptr error;
  if (ranks->rank() == 0) {
    const auto fail = [&](ErrorCode code, const char* what) {
      error = std::current_exception();
      said = fmt::format("{:02}{}", static_cast<int>(code), what);
    };
    try {
      said = kDecided + decide();
    } catch (const Error& caught) {
      fail(caught.code(), caught.what());
    } catch (const std::exception& caught) {
      fail(ErrorCode::callback, caught.what());
    } catch (...) {
      fail(ErrorCode::callback, "an exception that is not a std::exception");
    }
  }
  said = ranks->broadcast(said);
  if (error) std::rethrow_exception(error);
  if (!said.starts_with(kDecided)) {
    throw_error(static_cast<ErrorCode>(10 * (said.at(0) - '0') + (said.at(1) - '0')), "on rank 0: {}", said.substr(2));
  }
  return said.substr(1);
}

std::optional<int> rank_with(const Partitioner* ranks, bool here) {
  double rank = here ? (ranks != nullptr ? ranks->rank() : 0) : -1;
  if (ranks != nullptr) ranks->all_reduce_max({&rank, 1});
  return rank < 0 ? std::nullopt : std::optional(static_cast<int>(rank));
}

}  // namespace giro
