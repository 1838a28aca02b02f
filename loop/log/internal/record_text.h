#pragma once

#include <string>

// How records of logs are written to text files, by the history's exports and by the loggers alike.
namespace giro::detail {

// Quoted where RFC 4180 wants it.
std::string csv_cell(const std::string& text);

std::string json_string(const std::string& text);
// JSON has no numbers that are not finite: they are the strings "NaN", "Infinity" and "-Infinity".
void append_json(std::string& text, double number);

}  // namespace giro::detail
