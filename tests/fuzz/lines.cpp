#include "runtime/files/line_files.h"

#include <algorithm>
#include <cstdint>

#include <giro/loop/log/history.h>
#include <giro/runtime/files/archive.h>

#include "tests/fuzz/parse.h"

// The input's first line describes a history's columns. The rest is the file of its records, with matching size,
// checksum and number of lines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::uint8_t* const end = data + size;
  const std::uint8_t* const first_end = std::find(data, end, '\n');
  const std::string columns(data, first_end), text(first_end == end ? end : first_end + 1, end);
  giro::detail::Checksum checksum;
  checksum.add(text.data(), text.size());
  const auto count = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  const giro::detail::Manifest::Lines lines{"records", "file", count, text.size(), checksum.digits()};
  giro::test::parse(text, [&](giro::FileSystem& files) {
    giro::Archive archive = giro::Archive::read("{" + columns + ",\"records\":" + std::to_string(count) + "}", {},
                                                nullptr, {{lines.path, giro::detail::read_lines(files, "", lines)}});
    giro::History history;
    history.persist(archive);
  });
  return 0;
}
