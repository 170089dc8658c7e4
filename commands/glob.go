package commands

import "keyp/internal/glob"

// globMatch says whether s matches a pattern of KEYS, SCAN and PSUBSCRIBE.
func globMatch(pattern, s []byte) bool { return glob.Match(pattern, s) }

// globAll says whether a pattern matches everything.
func globAll(pattern []byte) bool { return glob.All(pattern) }
