#pragma once

// Numbers for places in source files, so that an access can record its place in four bytes.

#include <cstdint>
#include <string>

namespace giro::simt {

// The number of a text such as "cudaMemcpyAsync". Equal texts have the same number.
std::uint32_t intern_site(const std::string& text);

const char* site_text(std::uint32_t site);

}  // namespace giro::simt
