// Package config holds the options of the server. One table (options.go, compat.go) has the name,
// kind, default and bounds of each option, and whether CONFIG SET may change it. The names, units
// and error texts are those of Redis.
//
// Values come from four sources. If several of them set an option, the last one in this order wins:
//
//	defaults < file < environment (KEYP_MAXMEMORY) < command line (--maxmemory 1gb)
//
// Getters take no lock and may be called from any goroutine, also on the hot path. Set changes
// several options or none. The text of a value is always the canonical one that CONFIG GET shows:
// bytes as a number, words separated by one space.
package config
