#include "runtime/files/manifest.h"

#include <cstdint>
#include <optional>
#include <vector>

#include <giro/runtime/files/archive.h>

#include "runtime/files/store_names.h"
#include "tests/fuzz/parse.h"

namespace {

// A value of each kind that an archive supports.
struct Memory {
  bool flag = false;
  std::int8_t small = 0;
  std::uint64_t count = 0;
  double best = 0;
  float narrow = 0;
  std::string name;
  std::optional<double> date;
  std::vector<std::vector<std::int64_t>> lists;
  std::vector<Memory> inner;

  void persist(giro::Archive& archive) {
    archive("flag", flag)("small", small)("count", count)("best", best)("narrow", narrow)("name", name);
    archive.date("date", date)("lists", lists)("inner", inner);
  }
};

}  // namespace

// The input is the manifest without its checksum; a matching one is added.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  giro::test::parse(
      giro::detail::with_checksum({data, data + size}),
      [](giro::FileSystem& files) {
        giro::Archive archive = giro::Archive::read(giro::detail::read_manifest(files, "").memory);
        Memory memory;
        archive("run", memory);
        (void)archive.report();
      },
      std::string(giro::detail::kManifestName));
  return 0;
}
