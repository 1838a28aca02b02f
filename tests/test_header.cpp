// The precompiled header of the tests belongs to this file's target.
