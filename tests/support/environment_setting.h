#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace giro::test {

// Sets an environment variable for its lifetime.
class EnvironmentSetting {
 public:
  EnvironmentSetting(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~EnvironmentSetting() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  EnvironmentSetting(const EnvironmentSetting&) = delete;
  EnvironmentSetting& operator=(const EnvironmentSetting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

struct ArenaSetting : EnvironmentSetting {
  explicit ArenaSetting(const char* value) : EnvironmentSetting("GIRO_ARENA", value) {}
};

struct RewriteSetting : EnvironmentSetting {
  explicit RewriteSetting(const char* value) : EnvironmentSetting("GIRO_REWRITE", value) {}
};

struct BranchesSetting : EnvironmentSetting {
  explicit BranchesSetting(const char* value) : EnvironmentSetting("GIRO_BRANCHES", value) {}
};

}  // namespace giro::test
