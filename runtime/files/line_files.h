#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/manifest.h"

namespace giro::detail {

// The files to which one writer appends an archive's lines, one file for each path. Each path starts with a new file,
// and again after forget().
class LineFiles {
 public:
  LineFiles(FileSystem& files, std::string dir) : files_(files), dir_(std::move(dir)) {}

  // The number of lines they hold, by path.
  std::map<std::string, std::size_t> kept() const;
  // Durably appends the archive's lines beyond the kept ones, or all of its lines to a new file.
  // Error(invalid_argument) if the archive leaves out lines that are not kept here. After an error call forget().
  std::vector<Manifest::Lines> append(const std::map<std::string, Archive::Lines>& lines);
  void forget() { open_.clear(); }
  // Removes the files that append() has created since keep_new(); nothing refers to them.
  void remove_new();
  void keep_new() { new_.clear(); }
  bool uses(const std::string& name) const;

 private:
  struct File {
    std::string name;
    std::uint64_t lines = 0;
    PartChecksums written{1024, 64, /*of_lines=*/true};
  };
  File& file_for(const std::string& path, const Archive::Lines& lines);

  FileSystem& files_;
  std::string dir_;
  std::map<std::string, File> open_;
  std::vector<std::string> new_;
};

// The text of lines that a manifest refers to. Errors: not_found, io, corrupt_data, naming the file.
Archive::Lines read_lines(FileSystem& files, const std::string& dir, const Manifest::Lines& lines);
// For use after that fails: the lines that can be read and are undamaged.
Archive::Lines read_good_lines(FileSystem& files, const std::string& dir, const Manifest::Lines& lines);

}  // namespace giro::detail
