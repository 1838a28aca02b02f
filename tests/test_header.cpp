// The target of this file owns the tests' precompiled header.
