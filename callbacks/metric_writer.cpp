#include <giro/callbacks/metric_writer.h>

#include <string>
#include <utility>

namespace giro {

HParam::HParam(bool flag) : value(flag) {}
HParam::HParam(double number) : value(number) {}
HParam::HParam(std::string text) : value(std::move(text)) {}

}  // namespace giro
