#pragma once

// All of giro::flip.

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/callbacks/flip/checkpoint_files.h>
#include <giro/callbacks/flip/eval_loop.h>
#include <giro/callbacks/flip/serial.h>
#include <giro/callbacks/flip/summary_logger.h>
#include <giro/callbacks/flip/summary_writer.h>
#include <giro/callbacks/flip/train_loop.h>
#include <giro/loop/data/dataset.h>
