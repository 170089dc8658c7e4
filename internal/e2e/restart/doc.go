// Package restart tests which data survives the end of the real server: a clean stop, kill -9 at
// any moment, a damaged log.
package restart
