#pragma once

namespace giro {

// The clock of loops, in seconds since the Unix epoch. It starts from the system clock at its first use in the process,
// and continues with a steady clock. So setting the system clock, by hand or through NTP, neither delays a schedule nor
// speeds it up, and a date refers to the system clock as it was at the start. On Linux the time in which the machine is
// suspended does not count: dates, and whatever waits for one, are late by that time.
class Clock {
 public:
  // Both clocks at one moment, in seconds: the system's since the Unix epoch, and a steady clock's since an arbitrary
  // moment.
  struct Reading {
    double system;
    double steady;
    static Reading now();
  };

  explicit Clock(const Reading& anchor) : anchor_(anchor) {}
  // Seconds since the Unix epoch at a later reading. Ignores its system clock.
  double date(const Reading& reading) const { return anchor_.system + (reading.steady - anchor_.steady); }

  // Seconds since the Unix epoch, now. Never less than before.
  static double now();

 private:
  Reading anchor_;
};

}  // namespace giro
