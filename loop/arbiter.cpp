#include <giro/loop/arbiter.h>

#include <giro/loop/interrupt.h>

namespace giro {

double Arbiter::now() { return Elapsed::now(); }
int Arbiter::interrupt() { return detail::interrupt_signal(); }
bool Arbiter::save() { return detail::take_save_signal(); }
bool Arbiter::stop(bool asked, const Elapsed&) { return asked; }

}  // namespace giro
