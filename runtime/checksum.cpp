#include "runtime/checksum.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace giro::detail {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_shared<State>()) { XXH3_64bits_reset(&state_->hash); }

void Checksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->hash, data, bytes); }
std::string Checksum::digits() const { return fmt::format("{:016x}", XXH3_64bits_digest(&state_->hash)); }

std::string digits_of(std::initializer_list<std::string_view> texts) {
  Checksum checksum;
  for (const std::string_view text : texts) checksum.add(text.data(), text.size());
  return checksum.digits();
}

}  // namespace giro::detail
