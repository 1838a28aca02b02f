#include "distributed/launch.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

using Method = Launch::Method;

constexpr int kMaxRanks = std::numeric_limits<int>::max();

class Environment {
 public:
  Environment(const std::function<const char*(const char*)>& variable, const char* launcher)
      : variable_(variable), launcher_(launcher) {}

  bool has(const char* name) const { return variable_(name) != nullptr; }
  std::string text(const char* name) const {
    const char* const value = variable_(name);
    if (value != nullptr && *value != '\0') return value;
    throw_invalid("World: the environment variable {} is {}; processes started by {} need it to find each other", name,
                  value == nullptr ? "missing" : "empty", launcher_);
  }
  template <class Number>
  Number number(const char* name, Number least, Number most) const {
    const std::string value = text(name);
    const auto number = parse_number<Number>(value);
    if (number && *number >= least && *number <= most) return *number;
    throw_invalid("World: the environment variable {} is {}, expected a number from {} to {}", name, printable(value),
                  least, most);
  }

 private:
  const std::function<const char*(const char*)>& variable_;
  const char* launcher_;
};

std::string join(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Launch by_mpi(const Environment& environment) {
  // Set by Open MPI's mpirun (the first name), by MPICH's and Intel's (the second), or by a PMIx server such as
  // Slurm's.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (environment.has(name)) return {Method::mpi, "mpirun", environment.number(name, 1, kMaxRanks)};
  }
  if (environment.has("PMIX_RANK") || environment.has("PMI_RANK")) {
    const char* const tasks = "SLURM_STEP_NUM_TASKS";
    return {Method::mpi, "mpirun or srun", environment.has(tasks) ? environment.number(tasks, 1, kMaxRanks) : 0};
  }
  return {};
}

Launch by_torchrun(const Environment& environment) {
  if (!environment.has("RANK") && !environment.has("WORLD_SIZE")) return {};
  Launch launch{Method::environment, "torchrun", environment.number("WORLD_SIZE", 1, kMaxRanks)};
  launch.rank = environment.number("RANK", 0, launch.size - 1);
  if (launch.size == 1 && !environment.has("MASTER_ADDR")) return {};
  launch.local_rank = environment.number("LOCAL_RANK", 0, launch.size - 1);
  const int port = environment.number("MASTER_PORT", 1, 65534);
  // torchrun's agent may listen at MASTER_PORT itself.
  const bool is_taken =
      environment.has("TORCHELASTIC_USE_AGENT_STORE") && environment.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.address = join(environment.text("MASTER_ADDR"), is_taken ? port + 1 : port);
  return launch;
}

// Below Linux's ephemeral ports. Different steps on a machine rarely get the same port.
int port_of_step(const Environment& environment) {
  constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t job = environment.number<std::uint32_t>("SLURM_JOB_ID", 0, kMax);
  const std::uint32_t step = environment.number<std::uint32_t>("SLURM_STEP_ID", 0, kMax);
  return static_cast<int>(20000 + (job * 16 + step) % 12000);
}

Launch by_srun(const Environment& environment) {
  // An sbatch script outside of srun belongs to no step and runs alone.
  if (!environment.has("SLURM_STEP_NUM_TASKS") || !environment.has("SLURM_PROCID")) return {};
  Launch launch{Method::environment, "srun", environment.number("SLURM_STEP_NUM_TASKS", 1, kMaxRanks)};
  if (launch.size == 1) return {};
  launch.rank = environment.number("SLURM_PROCID", 0, launch.size - 1);
  launch.local_rank = environment.number("SLURM_LOCALID", 0, launch.size - 1);
  const bool is_told = environment.has("MASTER_ADDR") || environment.has("MASTER_PORT");
  if (is_told || environment.number("SLURM_STEP_NUM_NODES", 1, kMaxRanks) > 1) {
    const std::string host = environment.text("MASTER_ADDR");
    launch.address = join(host, environment.number("MASTER_PORT", 1, 65535));
  } else {
    launch.address = join("127.0.0.1", port_of_step(environment));
  }
  return launch;
}

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
      const auto* const id = reinterpret_cast<const unsigned char*>(notes + sizeof note + padded(note.n_namesz));
      return fmt::format("build {:02x}", fmt::join(id, id + note.n_descsz, ""));
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

Launch read_launch(const std::function<const char*(const char*)>& variable, bool has_mpi) {
  const Launch of_mpi = by_mpi({variable, "mpirun"});
  // torchrun sets this variable. mpirun or srun may have started torchrun, but torchrun does not start them.
  const bool is_by_torchrun = variable("TORCHELASTIC_RUN_ID") != nullptr;
  if (of_mpi.method == Method::mpi && has_mpi && !is_by_torchrun) return of_mpi;
  const Launch of_torchrun = by_torchrun({variable, "torchrun"});
  if (of_torchrun.method != Method::manual) return of_torchrun;
  const Launch of_srun = by_srun({variable, "srun"});
  return of_srun.method != Method::manual ? of_srun : of_mpi;
}

std::string executable_id() {
  std::string id;
  dl_iterate_phdr(read_first, &id);
  if (!id.empty()) return id;
  std::error_code error;
  return fmt::format("{} bytes", std::filesystem::file_size("/proc/self/exe", error));
}

}  // namespace giro::detail
