#include "distributed/executable.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace giro::detail {
namespace {

// An ELF note is a header, then a name and a description, each padded to four bytes.
std::string build_id_of(const char* notes, std::size_t bytes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t all = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (all > bytes) break;
    const std::string_view name(notes + sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4)) {
      std::string id = "build ";
      const char* const description = notes + sizeof note + padded(note.n_namesz);
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(description[i]));
      }
      return id;
    }
    notes += all;
    bytes -= all;
  }
  return {};
}

// The first object reported is the program itself.
int read_first(dl_phdr_info* info, std::size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    std::string& id = *static_cast<std::string*>(out);
    id = build_id_of(reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr), header.p_memsz);
    if (!id.empty()) break;
  }
  return 1;
}

}  // namespace

std::string executable_id() {
  std::string id;
  dl_iterate_phdr(read_first, &id);
  if (!id.empty()) return id;
  std::error_code error;
  return fmt::format("{} bytes", std::filesystem::file_size("/proc/self/exe", error));
}

}  // namespace giro::detail
