// Package rediscli has the tests that drive the server with the real redis-cli.
package rediscli
