#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/files/file_system.h>
#include <giro/runtime/files/save_load.h>

#include "runtime/elements.h"
#include "runtime/files/npy.h"
#include "runtime/path_pattern.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/contents.h"

namespace giro::tools {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string u16(std::uint16_t value) { return little_endian(value); }
std::string u32(std::uint32_t value) { return little_endian(value); }
std::string u64(std::uint64_t value) { return little_endian(value); }

constexpr std::uint16_t kVersion = 45;         // the first with 64-bit sizes
constexpr std::uint16_t kUtf8 = 1 << 11;       // the name is UTF-8
constexpr std::uint16_t kStored = 0;           // not compressed
constexpr std::uint16_t kDate = (1 << 5) | 1;  // 1980-01-01: the same tensors give the same bytes
constexpr std::uint16_t kWide = 1;             // the extra field that holds 64-bit sizes
constexpr std::uint16_t kSeeWide16 = 0xffff;   // see the extra field
constexpr std::uint32_t kSeeWide32 = 0xffffffff;

void check_name(const std::string& name) {
  const auto reject = [&](const char* why) { throw_invalid("zip: the name {} {}", printable(name), why); };
  if (name.size() > std::numeric_limits<std::uint16_t>::max()) reject("is longer than 65535 bytes");
  if (name.find_first_of(std::string_view("\0\\", 2)) != name.npos) reject("contains a zero byte or a backslash");
  if (name.starts_with('/')) reject("begins with '/'");
  const std::string within = "/" + name + "/";
  if (within.find("/../") != within.npos) reject("leads out of its folder");
}

// Writes a zip archive of uncompressed members, in the 64-bit format, which has no limits on sizes.
class ZipWriter {
 public:
  explicit ZipWriter(FileSystem::Writer& file) : file_(file) {}

  // Adds a member that consists of two parts, one after the other. Error(invalid_argument) for a name that would be
  // unpacked outside of the target folder, or that an archive cannot hold.
  void add(const std::string& name, std::string_view head, std::string_view body) {
    check_name(name);
    uLong crc = crc32_z(0, nullptr, 0);
    for (const std::string_view part : {head, body}) {
      if (!part.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(part.data()), part.size());
    }
    const std::string size = u64(head.size() + body.size());
    const std::string common = u16(kVersion) + u16(kUtf8) + u16(kStored) + u16(0) + u16(kDate) +
                               u32(static_cast<std::uint32_t>(crc)) + u32(kSeeWide32) + u32(kSeeWide32) +
                               u16(static_cast<std::uint16_t>(name.size()));
    directory_ += "PK\1\2" + u16(kVersion) + common + u16(28) + u16(0) + u16(0) + u16(0) + u32(0) + u32(kSeeWide32) +
                  name + u16(kWide) + u16(24) + size + size + u64(position_);
    ++members_;
    write("PK\3\4" + common + u16(20) + name + u16(kWide) + u16(16) + size + size);
    write(head);
    write(body);
  }
  // Writes the directory of the members, which ends the archive.
  void finish() {
    const std::uint64_t begin = position_;
    write(directory_);
    const std::uint64_t end = position_;
    write("PK\6\6" + u64(44) + u16(kVersion) + u16(kVersion) + u32(0) + u32(0) + u64(members_) + u64(members_) +
          u64(end - begin) + u64(begin));
    write("PK\6\7" + u32(0) + u64(end) + u32(1));
    write("PK\5\6" + u16(0) + u16(0) + u16(kSeeWide16) + u16(kSeeWide16) + u32(kSeeWide32) + u32(kSeeWide32) + u16(0));
  }

 private:
  void write(std::string_view bytes) {
    file_.write(bytes.data(), bytes.size());
    position_ += bytes.size();
  }

  FileSystem::Writer& file_;
  std::uint64_t position_ = 0;
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace

int export_npz(const std::string& path, const std::string& out, bool widen) {
  const Contents contents = load_contents(path);
  const auto files = posix_file_system();
  replace_file(*files, out, [&](FileSystem::Writer& writer) {
    ZipWriter zip(writer);
    for (const Leaf& leaf : contents.tensors) {
      Tensor value = leaf.value;
      std::vector<float> widened;
      if (value.dtype() == DType::bf16) {
        if (!widen) {
          throw_error(ErrorCode::unsupported,
                      "'{}': tensor '{}' is bf16, which NPY does not have: --widen makes it f32", contents.path,
                      for_terminal(leaf.path));
        }
        widened.resize(static_cast<std::size_t>(value.count()));
        value = Tensor(widened.data(), DType::f32, value.shape(), Device::cpu());
        detail::convert(value, leaf.value);
      }
      zip.add(leaf.path + ".npy", detail::npy_header(value.dtype(), value.shape()),
              {static_cast<const char*>(value.raw()), value.bytes()});
    }
    zip.finish();
  });
  fmt::print("{}: {} arrays from {}\n", out, contents.tensors.size(), contents.path);
  return kGood;
}

int convert(const std::string& path, const std::string& out, DType dtype, const std::vector<std::string>& only) {
  Contents contents = load_contents(path);
  std::vector<Leaf>& chosen = contents.tensors;
  const std::vector<PathPattern> patterns(only.begin(), only.end());
  for (const PathPattern& pattern : patterns) {
    const auto fits = [&](const Leaf& leaf) { return pattern.match(leaf.path).has_value(); };
    if (std::ranges::any_of(chosen, fits)) continue;
    throw_error(ErrorCode::not_found, "'{}': '{}' matches no tensor", contents.path, pattern.text());
  }
  if (!only.empty()) std::erase_if(chosen, [&](const Leaf& leaf) { return !matches_any(patterns, leaf.path); });
  save(out, chosen, {.dtype = dtype, .metadata = contents.metadata});
  const auto converted = std::ranges::count_if(
      chosen, [&](const Leaf& leaf) { return is_floating(leaf.value.dtype()) && leaf.value.dtype() != dtype; });
  fmt::print("{}: {} tensors from {}, {} of them converted to {}\n", out, chosen.size(), contents.path, converted,
             name_of(dtype));
  return kGood;
}

}  // namespace giro::tools
