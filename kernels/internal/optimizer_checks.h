#pragma once

namespace giro::optim {

// Error(invalid_argument) for an option of an optimizer that is out of its range.
void check(bool good, const char* what, double value, const char* expected);
void check_fraction(const char* what, double value);  // in [0, 1)
void check_positive(const char* what, double value);
void check_not_negative(const char* what, double value);

}  // namespace giro::optim
