#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace giro::test {

// Sets GIRO_ARENA, which streams and recordings that are made meanwhile go by.
class ArenaSetting {
 public:
  explicit ArenaSetting(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, value, 1);
  }
  ~ArenaSetting() {
    if (before_) {
      setenv(kName, before_->c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }
  ArenaSetting(const ArenaSetting&) = delete;
  ArenaSetting& operator=(const ArenaSetting&) = delete;

 private:
  static constexpr const char* kName = "GIRO_ARENA";
  std::optional<std::string> before_;
};

}  // namespace giro::test
