// Package timed counts the requests that limits admit, and checks streams that age. Meanwhile it
// kills a real server, or the leader of a group of real servers.
package timed
