#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include <giro/runtime/error.h>
#include <giro/runtime/tensor.h>

#include "tests/support/one_file.h"

namespace giro::test {

// Passes a file with these bytes and this name to `read`, which may only reject it as corrupt or unsupported.
template <class Read>
void parse(std::string bytes, Read&& read, const std::string& name = "file") {
  OneFile file(std::move(bytes), name);
  try {
    read(file);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data && error.code() != ErrorCode::unsupported) throw;
    if (std::strchr(error.what(), '\n') != nullptr || std::strlen(error.what()) > 400) std::abort();
  }
}

// Reads every byte, so that the address sanitizer checks it.
inline void touch(const Tensor& tensor) {
  const volatile char* const bytes = static_cast<const char*>(tensor.raw());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) (void)bytes[i];
}

}  // namespace giro::test
