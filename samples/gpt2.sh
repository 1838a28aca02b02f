#!/usr/bin/env bash
# Trains GPT-2: see train_on_text.sh. Takes the sample's own options (--help).
exec "$(dirname "${BASH_SOURCE[0]}")/train_on_text.sh" gpt2 "$@"
