// Package restart tests which data survives when the real server stops cleanly, is killed at any
// moment (kill -9), or starts with a damaged log.
package restart
