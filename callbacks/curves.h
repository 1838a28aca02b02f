#pragma once

#include <string>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/runtime/files/file_system.h>

namespace giro {

// Writes an SVG picture with one panel per key of the history: a thin line of its values over the steps, and a thick
// one of their running mean. Creates the directory if needed. Errors: those of History::collect; io.
void write_curves(const History& history, const std::vector<std::string>& keys, const std::string& path,
                  FileSystem& files = *posix_file_system());

}  // namespace giro
