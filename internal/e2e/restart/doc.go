// Package restart has the tests of what survives the end of the real server: a clean
// stop, kill -9 at any moment, a damaged log.
package restart
