#pragma once

// Numbers for places in source files, so that an access can store where it was made in four bytes.

#include <cstdint>
#include <string>

namespace giro::simt {

// The number of a text. Equal texts have the same number: "cudaMemcpyAsync".
std::uint32_t intern_site(const std::string& text);

const char* site_text(std::uint32_t site);

}  // namespace giro::simt
