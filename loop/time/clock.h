#pragma once

namespace giro {

// The time that loops go by, in seconds since the Unix epoch. It starts from the system clock when the process first
// asks, and goes on with a steady clock: somebody who sets the system clock, by hand or through NTP, neither silences a
// schedule nor hurries it. So a date says when something happened by the system clock as it was then. On Linux the time
// in which the machine is suspended does not count: dates, and whatever waits for one, are late by as much.
class Clock {
 public:
  // Both clocks at one moment, in seconds: the system's since the Unix epoch, and a steady one since any moment.
  struct Reading {
    double system;
    double steady;
    static Reading now();
  };

  explicit Clock(const Reading& anchor) : anchor_(anchor) {}
  // Seconds since the Unix epoch at a later reading. The system clock of that one makes no difference.
  double date(const Reading& reading) const { return anchor_.system + (reading.steady - anchor_.steady); }

  // Seconds since the Unix epoch, now. Never less than before.
  static double now();

 private:
  Reading anchor_;
};

}  // namespace giro
