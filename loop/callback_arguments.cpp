#include <giro/loop/callback_arguments.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace giro::detail {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 && text ? text.get() : type.name();
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(kAnonymous)) != name.npos;) name.erase(at, kAnonymous.size());
  return name.find_first_of("({") == name.npos ? name : "a function";
}

}  // namespace giro::detail
