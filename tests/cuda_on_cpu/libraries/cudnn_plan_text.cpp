#include "tests/cuda_on_cpu/libraries/cudnn_plan_text.h"

#include <cstdio>
#include <functional>
#include <sstream>

namespace cuda_on_cpu::dnn {
namespace {

void write(std::ostream& out, const Descriptor& descriptor) {
  std::ostringstream attributes;
  std::size_t count = 0;
  for (const auto& [name, attribute] : descriptor.attributes) {
    if (attribute.type == CUDNN_TYPE_HANDLE) continue;
    ++count;
    attributes << name << ' ' << attribute.type << ' ' << attribute.elements.size() << ' '
               << attribute.descriptors.size() << ' ';
    for (const char byte : attribute.elements) attributes << int{static_cast<unsigned char>(byte)} << ' ';
    for (const auto& one : attribute.descriptors) write(attributes, *one);
  }
  out << descriptor.kind << ' ' << descriptor.finalized << ' ' << count << ' ' << attributes.str();
}

template <class T>
T next(std::istream& in) {
  std::int64_t value = 0;
  in >> value;
  return static_cast<T>(value);
}

// The text is known to come from `write`, because its hash was checked.
std::shared_ptr<Descriptor> read(std::istream& in) {
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->kind = next<cudnnBackendDescriptorType_t>(in);
  descriptor->finalized = next<bool>(in);
  for (auto left = next<std::size_t>(in); left > 0; --left) {
    const auto name = next<cudnnBackendAttributeName_t>(in);
    Attribute& attribute = descriptor->attributes[name];
    attribute.type = next<cudnnBackendAttributeType_t>(in);
    attribute.elements.resize(next<std::size_t>(in));
    const auto descriptors = next<std::size_t>(in);
    for (char& byte : attribute.elements) byte = next<char>(in);
    for (std::size_t i = 0; i < descriptors; ++i) attribute.descriptors.push_back(read(in));
  }
  return descriptor;
}

std::string wrap(std::size_t version, const std::string& body) {
  std::ostringstream json;
  json << R"({"cudnnVersion":)" << version << R"(,"hash":)" << std::hash<std::string>{}(body) << R"(,"plan":")" << body
       << "\"}";
  return json.str();
}

}  // namespace

std::string write_plan(const Descriptor& configuration) {
  std::ostringstream body;
  write(body, configuration);
  return wrap(CUDNN_VERSION, body.str());
}

cudnnStatus_t read_plan(const std::string& json, std::shared_ptr<Descriptor>& configuration) {
  std::size_t version = 0;
  std::sscanf(json.c_str(), R"({"cudnnVersion":%zu)", &version);
  const std::string key = R"("plan":")";
  const std::size_t at = json.find(key), from = at + key.size();
  const std::string body = at != json.npos && json.size() >= from + 2 ? json.substr(from, json.size() - from - 2) : "";
  if (wrap(version, body) != json) return reject(CUDNN_STATUS_BAD_PARAM, "the plan is damaged or from another cuDNN");
  if (version != CUDNN_VERSION) return reject(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, "a plan of another cuDNN");
  std::istringstream in(body);
  configuration = read(in);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace cuda_on_cpu::dnn
