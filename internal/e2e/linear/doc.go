// Package linear records what many clients do to few keys of the real server while it is
// killed, and has porcupine look for an order of all operations that explains every reply:
// one in which each takes effect at one instant between its request and its reply.
package linear
