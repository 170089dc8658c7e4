// Package config has the server's options: one table (options.go, compat.go) with
// each option's name, kind, default, bounds and whether CONFIG SET may change
// it. Names, units and error texts are redis.conf's.
//
// Values come from four sources, later ones win:
//
//	defaults < file < environment (KEYP_MAXMEMORY) < command line (--maxmemory 1gb)
//
// Getters take no lock and may be called from any goroutine, also on the hot path.
// Set changes several options or none. A value's text is always the canonical one
// that CONFIG GET shows: bytes as a number, words separated by one space.
package config
