// Package timed tests KEYP.LIMIT, and streams whose entries have a maximum age. While clients use
// them, it kills a real server, or the leader of a group of real servers.
package timed
