#include "tests/cuda_on_cpu/engine/sites.h"

#include <map>
#include <vector>

namespace giro::simt {
namespace {

std::vector<const char*>& texts() {
  static auto* const all = new std::vector<const char*>;
  return *all;
}

}  // namespace

std::uint32_t add_sites(const char* const* added, std::size_t count) {
  const auto first = static_cast<std::uint32_t>(texts().size());
  texts().insert(texts().end(), added, added + count);
  return first;
}

std::uint32_t intern_site(const std::string& text) {
  static auto* const interned = new std::map<std::string, std::uint32_t>;
  const auto [entry, is_new] = interned->try_emplace(text);
  if (is_new) {
    const char* stays = entry->first.c_str();
    entry->second = add_sites(&stays, 1);
  }
  return entry->second;
}

const char* site_text(std::uint32_t site) { return texts()[site]; }

}  // namespace giro::simt
