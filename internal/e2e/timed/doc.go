// Package timed counts what limits admit, and looks at streams that age, while a real server, or
// the leader of a group of real servers, is killed.
package timed
