#include <giro/loop/callback.h>

#include <cxxabi.h>

#include <cstdlib>

namespace giro::detail {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 && text ? text.get() : type.name();
  const bool unnamed = name.find("{lambda") != name.npos || name.find('(') != name.npos;
  return unnamed ? "a function" : name;
}

}  // namespace giro::detail
