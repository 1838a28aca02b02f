// Measures the cost of saving and loading a checkpoint. For comparison, dd writes and reads the same number of bytes on
// the same disk in the same run. See checkpoint_bench --help for the options, and tests/bench/README.md for what is
// compared.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// A directory that the destructor removes.
class Folder {
 public:
  explicit Folder(const fs::path& parent) {
    std::string name = (parent / "checkpoint_bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory in " + parent.string());
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// dd with blocks of 1 MiB.
void dd(const fs::path& from, const fs::path& to, const char* conversion = "") {
  const auto quoted = [](const fs::path& path) {
    std::string text = "'";
    for (const char c : path.string()) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  };
  const std::string command = fmt::format("dd if={} of={} bs=1M {} 2>/dev/null", quoted(from), quoted(to), conversion);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("this failed: " + command);
}

// Waits until everything written so far is on disk.
void settle() { ::sync(); }

// Drops a directory's files from the page cache.
void drop_cache(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool dropped = file >= 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (file >= 0) ::close(file);
    if (!dropped) throw std::runtime_error("cannot drop the cache of " + entry.path().string());
  }
}

// Reads a file into newly allocated memory in pieces of 1 MiB: a load without its checks.
void read_into_memory(const fs::path& path) {
  const auto bytes = static_cast<std::size_t>(fs::file_size(path));
  const std::unique_ptr<char[]> data(new char[bytes]);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::size_t done = 0;
  ssize_t got = file >= 0 ? 1 : -1;
  while (done < bytes && got > 0) {
    got = ::read(file, data.get() + done, std::min(bytes - done, std::size_t{1} << 20));
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  if (file >= 0) ::close(file);
  if (done < bytes) throw std::runtime_error("cannot read " + path.string());
}

// A line of /proc/self/status, in bytes.
std::int64_t memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == name + ":" && status >> kib) return kib * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + name);
}

// The peak of resident memory during `f`, minus what is resident now.
std::int64_t peak_of(const std::function<void()>& f) {
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush)) {
    throw std::runtime_error("cannot reset the peak of resident memory");
  }
  const std::int64_t before = memory("VmRSS");
  f();
  return memory("VmHWM") - before;
}

// f32 leaves of noise, which a file system cannot compress.
giro::State make_state(std::int64_t bytes) {
  constexpr std::int64_t kLeaves = 64;
  std::vector<giro::LeafSpec> leaves;
  for (std::int64_t i = 0; i < kLeaves; ++i) {
    leaves.push_back({fmt::format("dense{}/kernel", i), giro::DType::f32, {bytes / kLeaves / 4}});
  }
  giro::State state(giro::Device::cpu());
  const giro::Tensor flat = state.add("params", leaves).flat();
  std::uint64_t bits = 1;
  for (float *value = flat.data<float>(), *end = value + flat.count(); value != end; ++value) {
    bits = bits * 6364136223846793005 + 1442695040888963407;
    *value = static_cast<float>(static_cast<std::int64_t>(bits));
  }
  return state;
}

// The results of a repetition: seconds as the mean of two runs, and memory peaks in copies of the state.
struct Repetition {
  double dd_write = 0, snapshot = 0, write = 0, removal = 0, blocked = 0, save_async_call = 0, async_total = 0;
  double dd_read_cold = 0, read_cold = 0, load_cold = 0, dd_read_warm = 0, read_warm = 0, load_warm = 0;
  double save_copies = 0, load_copies = 0;

  double synchronous() const { return snapshot + write + removal; }
};

// The results by name.
const std::vector<std::pair<std::string, double Repetition::*>>& fields() {
  using R = Repetition;
  static const std::vector<std::pair<std::string, double R::*>> all{
      {"dd_write", &R::dd_write},       {"snapshot", &R::snapshot},         {"write", &R::write},
      {"removal", &R::removal},         {"blocked", &R::blocked},           {"save_async_call", &R::save_async_call},
      {"async_total", &R::async_total}, {"dd_read_cold", &R::dd_read_cold}, {"read_cold", &R::read_cold},
      {"load_cold", &R::load_cold},     {"dd_read_warm", &R::dd_read_warm}, {"read_warm", &R::read_warm},
      {"load_warm", &R::load_warm},     {"save_copies", &R::save_copies},   {"load_copies", &R::load_copies}};
  return all;
}

class Bench {
 public:
  Bench(std::int64_t bytes, const fs::path& directory)
      : state_(make_state(bytes)),
        bytes_(static_cast<std::int64_t>(state_.collection("params").bytes().bytes())),
        disk_(directory),
        memory_("/dev/shm"),
        source_(memory_.path() / "source"),
        store_((disk_.path() / "model").string(), {.keep = kAll}) {
    std::ofstream source(source_, std::ios::binary);
    source.write(static_cast<const char*>(state_.collection("params").bytes().raw()), bytes_);
    if (!source.flush()) throw std::runtime_error("cannot write " + source_.string());
    snapshot_ = take();
    save();  // leaves an older checkpoint to remove, and locks the directory
  }

  std::int64_t bytes() const { return bytes_; }

  Repetition repeat() {
    Repetition r, unused;
    // Each runs once early and once late, after an uncounted run, because the first write or read also allocates page
    // cache.
    measure_dd_write(unused);
    measure_dd_write(r);
    measure_synchronous(r);
    measure_asynchronous(r);
    measure_asynchronous(r);
    measure_synchronous(r);
    measure_dd_write(r);
    measure_loading(r);
    for (const auto& [name, seconds] : fields()) r.*seconds /= 2;  // the copies are 0 so far
    measure_memory(r);
    return r;
  }

 private:
  static constexpr std::int64_t kAll = 1 << 20;  // checkpoints to keep while a save is timed

  std::shared_ptr<giro::Snapshot> take() const {
    auto snapshot = std::make_shared<giro::Snapshot>(state_, giro::MemoryKind::pinned);
    snapshot->wait();
    return snapshot;
  }
  void update() {
    snapshot_->update(state_);
    snapshot_->wait();
  }
  void save() { store_.save(*snapshot_, {.steps = ++steps_}, store_.archive()); }
  double remove_older() {
    store_.set_keep({.keep = 1});
    const double seconds = seconds_of([&] { store_.prune(); });
    store_.set_keep({.keep = kAll});
    return seconds;
  }

  void measure_dd_write(Repetition& r) {
    const fs::path file = disk_.path() / "dd";
    settle();
    r.dd_write += seconds_of([&] { dd(source_, file, "conv=fsync"); });
    fs::remove(file);
  }

  void measure_synchronous(Repetition& r) {
    settle();
    r.snapshot += seconds_of([&] { update(); });
    r.write += seconds_of([&] { save(); });
    r.removal += remove_older();
  }

  void measure_asynchronous(Repetition& r) {
    settle();
    giro::Archive archive = store_.archive();
    r.async_total += seconds_of([&] {
      r.blocked += seconds_of([&] {
        update();
        r.save_async_call += seconds_of([&] { store_.save_async(snapshot_, {.steps = ++steps_}, std::move(archive)); });
      });
      store_.wait();
    });
    remove_older();
  }

  void measure_loading(Repetition& r) {
    const fs::path checkpoint = store_.latest()->path;
    const auto dd_read = [&] {
      for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) dd(entry.path(), "/dev/null");
    };
    const auto read = [&] {
      for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) read_into_memory(entry.path());
    };
    const auto load = [&] { (void)giro::load_checkpoint(checkpoint.string()); };
    const auto add = [&](double& seconds, const auto& f) { seconds += seconds_of(f); };
    const auto add_cold = [&](double& seconds, const auto& f) {
      drop_cache(checkpoint);
      add(seconds, f);
    };
    double unused = 0;
    settle();
    add_cold(unused, dd_read);
    add_cold(unused, load);
    const auto there_and_back = [&](const auto& time, double& of_dd, double& of_read, double& of_load) {
      time(of_dd, dd_read);
      time(of_read, read);
      time(of_load, load);
      time(of_load, load);
      time(of_read, read);
      time(of_dd, dd_read);
    };
    there_and_back(add_cold, r.dd_read_cold, r.read_cold, r.load_cold);
    there_and_back(add, r.dd_read_warm, r.read_warm, r.load_warm);
  }

  void measure_memory(Repetition& r) {
    const auto copies = [&](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(bytes_); };
    snapshot_.reset();
    r.load_copies = copies(peak_of([&] { (void)store_.load(); }));
    r.save_copies = copies(peak_of([&] {
      snapshot_ = take();
      save();
    }));
    remove_older();
  }

  giro::State state_;
  std::int64_t bytes_;
  Folder disk_, memory_;
  fs::path source_;
  giro::CheckpointStore store_;
  std::shared_ptr<giro::Snapshot> snapshot_;
  std::int64_t steps_ = 0;
};

struct Row {
  std::string what, value, compared = "", goal = "";
};

// The medians over the repetitions.
class Summary {
 public:
  Summary(std::int64_t bytes, std::vector<Repetition> repetitions)
      : bytes_(static_cast<double>(bytes)), repetitions_(std::move(repetitions)) {}

  void print() const {
    using R = Repetition;
    const std::vector<Row> rows{
        {"dd, conv=fsync", rate(&R::dd_write)},
        {"synchronous save: snapshot", time(&R::snapshot)},
        {"synchronous save: write", rate(&R::write), ratio(&R::dd_write, &R::write, "of dd's rate"), ">= 80 %"},
        {"synchronous save: removal of the older", time(&R::removal)},
        {"asynchronous save: the loop is blocked", time(&R::blocked), of_synchronous(&R::blocked), "< 1 %"},
        {"  of that by save_async", time(&R::save_async_call), of_synchronous(&R::save_async_call)},
        {"asynchronous save: until durable", time(&R::async_total)},
        {"dd of=/dev/null, cold", rate(&R::dd_read_cold)},
        {"read() into fresh memory, cold", rate(&R::read_cold), ratio(&R::dd_read_cold, &R::read_cold, "of dd's rate")},
        {"load, cold", rate(&R::load_cold), ratio(&R::dd_read_cold, &R::load_cold, "of dd's rate"), ">= 80 %"},
        {"  beside read()", "", ratio(&R::read_cold, &R::load_cold, "of its rate")},
        {"dd of=/dev/null, warm", rate(&R::dd_read_warm)},
        {"read() into fresh memory, warm", rate(&R::read_warm), ratio(&R::dd_read_warm, &R::read_warm, "of dd's rate")},
        {"load, warm", rate(&R::load_warm), ratio(&R::dd_read_warm, &R::load_warm, "of dd's rate"), ">= 80 %"},
        {"  beside read()", "", ratio(&R::read_warm, &R::load_warm, "of its rate")},
        {"peak memory of saving", copies(&R::save_copies), "", "<= 1 copy"},
        {"peak memory of loading", copies(&R::load_copies), "", "<= 1 copy"},
    };
    for (const Row& row : rows) {
      fmt::print("{}\n", trimmed(fmt::format("{:40} {:>20}  {:22}  {}", row.what, row.value, row.compared, row.goal)));
    }
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json all{{"bytes", static_cast<std::int64_t>(bytes_)}};
    for (const Repetition& r : repetitions_) {
      auto& one = all["repetitions"].emplace_back();
      for (const auto& [name, field] : fields()) one[name] = r.*field;
    }
    return all;
  }

 private:
  using Field = double Repetition::*;

  template <class F>
  double median_of(F&& value) const {
    std::vector<double> values;
    for (const Repetition& r : repetitions_) values.push_back(value(r));
    return median(std::move(values));
  }
  double median_of(Field field) const {
    return median_of([&](const Repetition& r) { return r.*field; });
  }
  std::string rate(Field field) const {
    const double seconds = median_of(field);
    return fmt::format("{:.3f} s  {:.2f} GB/s", seconds, bytes_ / seconds / 1e9);
  }
  std::string time(Field field) const { return fmt::format("{:.6f} s", median_of(field)); }
  std::string copies(Field field) const { return fmt::format("{:.3f} copies", median_of(field)); }
  // The ratio of two fields, taken within each repetition.
  std::string ratio(Field above, Field below, const char* unit) const {
    return fmt::format("{:.1f} % {}", 100 * median_of([&](const Repetition& r) { return r.*above / r.*below; }), unit);
  }
  std::string of_synchronous(Field field) const {
    return fmt::format("{:.4f} % of synchronous",
                       100 * median_of([&](const Repetition& r) { return r.*field / r.synchronous(); }));
  }
  static std::string trimmed(std::string text) { return text.erase(text.find_last_not_of(' ') + 1); }

  double bytes_;
  std::vector<Repetition> repetitions_;
};

// Times saves beside few and beside many checkpoints, in turn: each adds one and removes one.
void print_saves_beside(std::int64_t bytes, const fs::path& directory, std::int64_t many) {
  const giro::State state = make_state(bytes);
  giro::Snapshot snapshot(state, giro::MemoryKind::pinned);
  snapshot.wait();
  struct Place {
    Place(const fs::path& parent, std::int64_t count)
        : folder(parent), kept(count), store((folder.path() / "model").string(), {.keep = count}) {}
    Folder folder;
    std::int64_t kept, steps = 0;
    giro::CheckpointStore store;
    std::vector<double> seconds = {};
  };
  Place places[]{{directory, 10}, {directory, many}};
  const auto save = [&](Place& place) { place.store.save(snapshot, {.steps = ++place.steps}, place.store.archive()); };
  for (Place& place : places) {
    while (place.steps < place.kept) save(place);
  }
  constexpr int kSaves = 100;
  settle();
  for (int i = 0; i < kSaves; ++i) {
    for (Place& place : places) place.seconds.push_back(seconds_of([&] { save(place); }));
  }
  for (const Place& place : places) {
    fmt::print("a save of {} bytes beside {:5} checkpoints {:10.6f} s\n", bytes, place.kept, median(place.seconds));
  }
  fmt::print("ratio {:.2f}\n", median(places[1].seconds) / median(places[0].seconds));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Saves and loads checkpoints of a state on the CPU, beside dd on the same disk.", "checkpoint_bench");
  std::int64_t bytes = std::int64_t{1} << 30;
  std::int64_t beside = 0;
  int repetitions = 3;
  std::string directory = ".", json;
  app.add_option("--bytes", bytes, "of the state; needs 5 times as much memory, and as much room on the disk")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1} << 16, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--repetitions", repetitions, "the medians of these are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--dir", directory, "on the disk to be measured; a directory is made in it and removed")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--json", json, "a file for what each repetition measures, in seconds and copies");
  app.add_option("--beside", beside, "only times saves beside this many checkpoints, and beside 10")
      ->check(CLI::Range(11, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  try {
    if (beside > 0) {
      print_saves_beside(bytes, directory, beside);
      return 0;
    }
    Bench bench(bytes, directory);
    std::vector<Repetition> measured;
    for (int i = 0; i < repetitions; ++i) measured.push_back(bench.repeat());
    const Summary summary(bench.bytes(), std::move(measured));
    fmt::print("a state of {} bytes, medians of {} repetitions\n", bench.bytes(), repetitions);
    summary.print();
    if (!json.empty() && !(std::ofstream(json) << summary.json().dump(1) << "\n" << std::flush)) {
      throw std::runtime_error("cannot write " + json);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "checkpoint_bench: {}\n", error.what());
    return 1;
  }
}
