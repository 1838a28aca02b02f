#pragma once

// Numbers for places in source files, so that an access can remember where it was made in four bytes.

#include <cstddef>
#include <cstdint>
#include <string>

namespace giro::simt {

// Numbers `count` texts in a row; returns the first's number. The texts outlive the process's last launch.
std::uint32_t add_sites(const char* const* texts, std::size_t count);

// The number of one text, the same for the same text: "cudaMemcpyAsync".
std::uint32_t intern_site(const std::string& text);

const char* site_text(std::uint32_t site);

}  // namespace giro::simt
