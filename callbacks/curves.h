#pragma once

#include <string>
#include <vector>

#include <giro/loop/log/history.h>
#include <giro/runtime/file_system.h>

namespace giro {

// Writes an SVG picture with one panel for each key of the history: its values over the steps, thin, and their running
// mean, thick. The directory is made where there is none. Errors: those of History::collect; io.
void write_curves(const History& history, const std::vector<std::string>& keys, const std::string& path,
                  FileSystem& files = *posix_file_system());

}  // namespace giro
