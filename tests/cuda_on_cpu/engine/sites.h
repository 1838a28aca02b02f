#pragma once

// Numbers for places in source files, so that an access can remember where it was made in four bytes.

#include <cstdint>
#include <string>

namespace giro::simt {

// The number of one text, the same for the same text: "cudaMemcpyAsync".
std::uint32_t intern_site(const std::string& text);

const char* site_text(std::uint32_t site);

}  // namespace giro::simt
