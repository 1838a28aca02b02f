#!/usr/bin/env bash
# Trains a recurrent language model: see train_on_text.sh. Takes the sample's own options (--help).
exec "$(dirname "${BASH_SOURCE[0]}")/train_on_text.sh" rnnlm "$@"
