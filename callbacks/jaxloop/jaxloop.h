#pragma once

// All of giro::jaxloop.

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/jaxloop/actions.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/jaxloop/outer_loop.h>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/callbacks/jaxloop/step.h>
#include <giro/loop/data/dataset.h>
