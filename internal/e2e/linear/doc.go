// Package linear records the operations of many clients on few keys of the real server while it is
// killed. Then porcupine looks for an order of all operations that explains every reply. In that
// order each operation takes effect at one instant between its request and its reply.
package linear
