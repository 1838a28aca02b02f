#include "loop/data/idx.h"

#include <cstdint>

#include "tests/fuzz/parse.h"

// The input is a file, gzip or not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse({data, data + size},
                    [](giro::FileSystem& files) { giro::test::touch(giro::data::read_idx("file", files).values); });
  return 0;
}
