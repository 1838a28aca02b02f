#include <cstdint>

#include <giro/runtime/error.h>

#include "loop/data/csv_table.h"
#include "tests/fuzz/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse({data, data + size}, [](giro::FileSystem& files) {
    try {
      giro::data::read_csv("file", {{"x", {"a"}}, {"y", {"b", "a"}}}, ',', files);
    } catch (const giro::Error& error) {  // the file lacks these columns
      if (error.code() != giro::ErrorCode::not_found) throw;
    }
  });
  return 0;
}
