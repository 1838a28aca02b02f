#pragma once

// Numbers for places in source files, so that an access can record its place in four bytes.

#include <cstddef>
#include <cstdint>
#include <string>

namespace giro::simt {

// Assigns consecutive numbers to `count` texts, each a place in a source file, and returns the first number. The texts
// must outlive the process's last launch.
std::uint32_t add_sites(const char* const* texts, std::size_t count);

// The number of a text such as "cudaMemcpyAsync". Equal texts have the same number.
std::uint32_t intern_site(const std::string& text);

const char* site_text(std::uint32_t site);

}  // namespace giro::simt
